"""PyTorch Lightning, as users write it: PROGRAM STEPS SECONDS [WORD...]. The words: recovers (with
Lockstep's strategy, which is all that is changed), accumulates (two batches for each update),
validates (within each data epoch, with whatever goes with it), and moments of a rank."""

import os
import sys

import lightning
import torch
import torchmetrics
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.plugins.io import TorchCheckpointIO

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


class Validating(Module):
    """It counts the samples of a data epoch: on all ranks by a metric, and on its own."""

    def __init__(self):
        super().__init__()
        self.count = torchmetrics.SumMetric()

    def prepare_data(self):
        print("data is prepared", flush=True)

    def on_train_epoch_start(self):
        self.log("begun", 1.0, on_epoch=True, sync_dist=True)

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.count(len(batch["labels"]))
        self.log("count", self.count, on_step=False, on_epoch=True)
        self.log("own count", float(len(batch["labels"])), reduce_fx="sum", on_step=False,
                 on_epoch=True)
        self.log("mean loss", loss, on_step=True, on_epoch=True, sync_dist=True)
        return loss

    def validation_step(self, batch, _):
        self.log("loss of validation", self.network(**batch)["loss"], sync_dist=True)

    def configure_optimizers(self):
        optimizer = super().configure_optimizers()
        return [optimizer], [
            {"scheduler": torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99),
             "interval": "step"},
            {"scheduler": torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0),
             "monitor": "loss of validation"}]


class Watch(lightning.Callback):
    def __init__(self, words, seconds):
        self.moments, self.seconds = Moments(words), seconds
        self.step = 0

    def on_train_batch_end(self, trainer, *_):
        if trainer.global_step > self.step:  # and not a batch before an update
            self.step = trainer.global_step
            self.moments.after(self.step, self.seconds)

    def on_train_epoch_end(self, trainer, *_):
        counts = [float(trainer.callback_metrics.get(name, 0)) for name in ("count", "own count")]
        print("counted", *counts, flush=True)

    def state_dict(self):
        return {"step": self.step}

    def load_state_dict(self, state):
        self.step = state["step"]


class Files(TorchCheckpointIO):
    def __init__(self, moments):
        self.moments = moments

    def save_checkpoint(self, checkpoint, path, storage_options=None):
        self.moments.in_save(checkpoint["global_step"])
        super().save_checkpoint(checkpoint, path, storage_options)


def main():
    steps, seconds, words = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    strategy, folder = "ddp", os.environ["LOCKSTEP_CHECKPOINT_DIR"]
    if "recovers" in words:
        import lockstep.lightning

        strategy = lockstep.lightning.Recovers()
    lightning.seed_everything(1)
    validates = "validates" in words
    module = Validating() if validates else Module()
    # Before that which saves: a rank that dies after a step has not saved it.
    watch = Watch(words, seconds)
    callbacks = [watch, ModelCheckpoint(
        folder, every_n_train_steps=10, save_last=True)]
    if validates:
        callbacks += [
            EarlyStopping("loss of validation", patience=steps),
            ModelCheckpoint(f"{folder}/best", monitor="loss of validation", save_top_k=2)]
    trainer = lightning.Trainer(
        accelerator="cpu", devices=1, num_nodes=int(os.environ["WORLD_SIZE"]), strategy=strategy,
        max_steps=steps, logger=False, enable_progress_bar=False, enable_model_summary=False,
        accumulate_grad_batches=2 if "accumulates" in words else 1,
        val_check_interval=5 if validates else None, gradient_clip_val=1.0 if validates else None,
        callbacks=callbacks, plugins=[Files(watch.moments)])

    def load(shuffle):
        return torch.utils.data.DataLoader(Samples(), batch_size=8, shuffle=shuffle)

    trainer.fit(module, load(True), load(False) if validates else None, ckpt_path="last")
    tell_end(module, trainer.global_step)


if __name__ == "__main__":
    main()
