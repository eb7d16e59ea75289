"""PyTorch Lightning, as users write it: PROGRAM STEPS SECONDS [recovers] [RANK:STEP...].
`recovers`: with Lockstep's strategy, which is all that is changed."""

import os
import sys

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

from python_trainers_parts import Moments, Network, Samples, tell_end


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = Network()

    def training_step(self, batch, _):
        loss = self.network(**batch)["loss"]
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=3e-3)


class Watch(lightning.Callback):
    def __init__(self, words, seconds):
        self.moments, self.seconds = Moments(words), seconds

    def on_train_batch_end(self, trainer, *_):
        self.moments.after(trainer.global_step, self.seconds)


def main():
    steps, seconds, words = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    strategy = "ddp"
    if "recovers" in words:
        import lockstep.lightning

        strategy = lockstep.lightning.RecoveringStrategy()
    lightning.seed_everything(1)
    module = Module()
    trainer = lightning.Trainer(
        accelerator="cpu", devices=1, num_nodes=int(os.environ["WORLD_SIZE"]), strategy=strategy,
        max_steps=steps, logger=False, enable_progress_bar=False, enable_model_summary=False,
        callbacks=[
            # Before that which saves: a rank that dies after a step has not saved it.
            Watch(words, seconds),
            ModelCheckpoint(os.environ["LOCKSTEP_CHECKPOINT_DIR"], every_n_train_steps=10,
                            save_last=True)])
    loader = torch.utils.data.DataLoader(Samples(), batch_size=8, shuffle=True)
    trainer.fit(module, loader, ckpt_path="last")
    tell_end(module, trainer.global_step)


if __name__ == "__main__":
    main()
