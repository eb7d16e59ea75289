"""Hugging Face's Trainer fine-tunes a tiny BERT. The program makes the model itself and downloads
nothing. The Trainer finds its peers through the variables of torchrun, saves into Lockstep's folder
for checkpoints, and continues from there after a restart. It reports its progress by itself
(docs/how-to/show-progress.md).
"""

import os
import pathlib
import tempfile

import torch
import transformers
from transformers.trainer_utils import get_last_checkpoint

WORDS, LENGTH, SAMPLES = 64, 12, 2048


def make_model(folder):
    """Makes the model that takes the place of a pretrained model."""
    config = transformers.BertConfig(
        vocab_size=WORDS, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=LENGTH)
    transformers.BertModel(config).save_pretrained(folder)


class Sentences(torch.utils.data.Dataset):
    """Sentences of random words. The label says whether the first word is in the upper half."""

    def __init__(self, seed):
        chance = torch.Generator().manual_seed(seed)
        self.words = torch.randint(WORDS, (SAMPLES, LENGTH), generator=chance)

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        words = self.words[index]
        return {"input_ids": words, "labels": (words[0] >= WORDS // 2).long()}


def main():
    transformers.set_seed(1)
    with tempfile.TemporaryDirectory() as folder:
        make_model(folder)
        model = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    checkpoints = pathlib.Path(os.environ["LOCKSTEP_CHECKPOINT_DIR"])
    trainer = transformers.Trainer(
        model=model,
        args=transformers.TrainingArguments(
            output_dir=str(checkpoints), num_train_epochs=12, per_device_train_batch_size=32,
            learning_rate=3e-3, logging_steps=8, save_steps=16, save_total_limit=2,
            use_cpu=True, ddp_backend="gloo", report_to="none", disable_tqdm=True, seed=1),
        train_dataset=Sentences(seed=1),
        eval_dataset=Sentences(seed=2),
        compute_metrics=lambda found: {
            "accuracy": (found.predictions.argmax(1) == found.label_ids).mean()})
    newest = get_last_checkpoint(checkpoints)
    print("training begins from", os.path.basename(newest or "the model"), flush=True)
    trainer.train(resume_from_checkpoint=newest)
    accuracy = trainer.evaluate()["eval_accuracy"]
    if trainer.is_world_process_zero():
        print(f"accuracy {accuracy:.3f} after {trainer.state.global_step} steps", flush=True)


if __name__ == "__main__":
    main()
