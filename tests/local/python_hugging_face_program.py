"""Hugging Face's Trainer, as users write it: PROGRAM STEPS SECONDS [WORD...]. The words: recovers
(with Lockstep's class in front, which is all that is changed), accumulates (two batches for each
update), and moments of a rank."""

import os
import pathlib
import sys

import transformers
from transformers.trainer_utils import get_last_checkpoint

from python_trainers_parts import Moments, Network, Samples, tell_end


class Watch(transformers.TrainerCallback):
    def __init__(self, words, seconds):
        self.moments, self.seconds = Moments(words), seconds

    def on_step_end(self, args, state, control, **_):
        self.moments.after(state.global_step, self.seconds)


def main():
    steps, seconds, words = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    watch = Watch(words, seconds)
    bases = (transformers.Trainer,)
    if "recovers" in words:
        import lockstep.transformers

        bases = (lockstep.transformers.Recovers, transformers.Trainer)

    class Trainer(*bases):
        def _save_rng_state(self, output_dir):
            watch.moments.in_save(self.state.global_step)
            super()._save_rng_state(output_dir)

    transformers.set_seed(1)
    checkpoints = pathlib.Path(os.environ["LOCKSTEP_CHECKPOINT_DIR"])
    trainer = Trainer(
        model=Network(),
        args=transformers.TrainingArguments(
            output_dir=str(checkpoints), max_steps=steps, per_device_train_batch_size=8,
            gradient_accumulation_steps=2 if "accumulates" in words else 1,
            learning_rate=3e-3, logging_steps=2, save_steps=10, save_total_limit=2,
            use_cpu=True, ddp_backend="gloo", report_to="none", disable_tqdm=True, seed=1),
        train_dataset=Samples(),
        callbacks=[watch])
    newest = get_last_checkpoint(checkpoints) if checkpoints.is_dir() else None
    print("training begins from", os.path.basename(newest or "the model"), flush=True)
    trainer.train(resume_from_checkpoint=newest)
    tell_end(trainer.model, trainer.state.global_step)


if __name__ == "__main__":
    main()
