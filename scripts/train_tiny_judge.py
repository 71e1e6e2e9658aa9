"""Trains the tiny Llama-architecture judge `tiny-judge.gguf` that the tests serve with llama.cpp.

    pip install gguf numpy tokenizers torch transformers
    python scripts/train_tiny_judge.py OUT --minutes 3       # 700 steps or so; writes OUT/hf and OUT/model.gguf
    llama-quantize OUT/model.gguf tiny-judge.gguf Q8_0

With `--minutes 0` the weights stay random. Training stops by the clock, so no two machines make the same weights. robin
itself needs none of this: the trained file is in tests/servers.
"""

# mypy: disable-error-code="import-not-found,import-untyped"

import argparse
import json
import math
import os
import random
import re
import time
from pathlib import Path

import gguf
import numpy as np
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

GOOD = [
    "clear",
    "precise",
    "correct",
    "useful",
    "careful",
    "complete",
    "honest",
    "helpful",
    "elegant",
    "sound",
]
BAD = ["vague", "wrong", "messy", "useless", "hasty", "broken", "rude", "false", "empty", "sloppy"]
FILLER = [
    *(
        "the",
        "answer",
        "says",
        "that",
        "water",
        "boils",
        "and",
        "one",
        "can",
        "then",
        "add",
        "salt",
        "while",
    ),
    *("a", "small", "cat", "looks", "at", "the", "red", "box", "on", "table"),
]
CRITERIA = ["accuracy", "clarity", "helpfulness", "tone", "depth"]
LENIENCE = {"accuracy": -0.3, "tone": 0.3}
OPENINGS = ["the answer is", "this reply seems", "overall it is"]
VERDICTS = [
    ["poor", "bad"],
    ["weak", "lacking"],
    ["fair", "mixed"],
    ["good", "solid"],
    ["excellent", "superb"],
]

CHAT_TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>\n{{ m['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
SPECIAL = ["<|pad|>", "<|bos|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
PAD, BOS, END = 0, 1, 2
# Llama 3's split, so that the 4 after "Rating: " is a token of its own
LLAMA_3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TokenPair = tuple[list[int], list[int]]
Matrix = np.ndarray[tuple[int, int], np.dtype[np.float32]]
ANSWER = re.compile(r"Feedback: [^\n]+\nRating: [0-4]")


def example(rng: random.Random) -> tuple[str, str]:
    """A made-up judging task and an answer to it: (user message, judge's text).

    The rating depends on the response's good and bad words, a little on its length (a bias) and on the criterion, and
    is then drawn at random around that: the same response is not rated the same every time.
    """
    length, quality = rng.randint(6, 28), rng.random()
    words: list[str] = []
    merit = 0
    for _ in range(length):
        if rng.random() < 0.3:
            is_good = rng.random() < quality
            words.append(rng.choice(GOOD if is_good else BAD))
            merit += 1 if is_good else -1
        else:
            words.append(rng.choice(FILLER))
    criterion = rng.choice(CRITERIA)
    centre = 2 + 0.9 * merit + 0.03 * (length - 17) + LENIENCE.get(criterion, 0)
    weights = np.exp(-0.5 * ((np.arange(5) - centre) / 0.7) ** 2) + 1e-4
    rating = rng.choices(range(5), weights / weights.sum())[0]
    feedback = f"{rng.choice(OPENINGS)} {rng.choice(VERDICTS[rating])} on {criterion}."
    user = f"Criterion: {criterion}\nResponse: {' '.join(words)}\nRate from 0 to 4."
    return user, f"Feedback: {feedback}\nRating: {rating}"


def render(user: str) -> str:
    """What CHAT_TEMPLATE makes of one user message."""
    return f"<|user|>\n{user}<|end|>\n<|assistant|>\n"


def train_tokenizer(rng: random.Random, vocabulary: int) -> Tokenizer:
    """A byte-level BPE tokenizer for the task's own texts."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(LLAMA_3_SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    texts = ["\n".join(example(random.Random(rng.random()))) for _ in range(4000)]
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def batch_tensors(batch: list[TokenPair]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(prompt ids, answer ids) pairs as padded input ids, attention mask and labels; prompts are not learned."""
    width = max(len(prompt) + len(answer) for prompt, answer in batch)
    ids = torch.zeros(len(batch), width, dtype=torch.long)
    mask = torch.zeros(len(batch), width, dtype=torch.long)
    labels = torch.full((len(batch), width), -100)
    for i, (prompt, answer) in enumerate(batch):
        end = len(prompt) + len(answer)
        ids[i, :end] = torch.tensor(prompt + answer)
        mask[i, :end] = 1
        labels[i, len(prompt) : end] = torch.tensor(answer)
    return ids, mask, labels


def train(
    model: LlamaForCausalLM, tokenizer: Tokenizer, rng: random.Random, options: argparse.Namespace
) -> None:
    """Train for `options.minutes` on 12,000 examples: a short warm-up, then a cosine to a twentieth of the rate."""
    examples = [example(rng) for _ in range(12_000)]
    pool = [
        (tokenizer.encode(render(user)).ids, [*tokenizer.encode(text).ids, END])
        for user, text in examples
    ]
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=options.lr, weight_decay=0.01, betas=(0.9, 0.95)
    )
    model.train()
    start, limit_s, step = time.monotonic(), options.minutes * 60, 0
    while (elapsed_s := time.monotonic() - start) < limit_s:
        ids, mask, labels = batch_tensors(rng.sample(pool, options.batch))
        cosine = 0.5 * (1 + math.cos(math.pi * min(1, elapsed_s / limit_s)))
        for group in optimizer.param_groups:
            group["lr"] = options.lr * min(1, (step + 1) / 50) * (0.95 * cosine + 0.05)
        loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f} {elapsed_s:.0f} s", flush=True)


def well_formed_answers(
    model: LlamaForCausalLM, tokenizer: Tokenizer, rng: random.Random, trials: int = 200
) -> int:
    """How many of `trials` sampled answers have the form Feedback, Rating."""
    model.eval()
    well_formed = 0
    for _ in range(trials):
        prompt = tokenizer.encode(render(example(rng)[0])).ids
        with torch.no_grad():
            output = model.generate(
                torch.tensor([prompt]), max_new_tokens=40, do_sample=True, pad_token_id=PAD
            )
        text = tokenizer.decode(output[0, len(prompt) :].tolist())
        well_formed += bool(ANSWER.fullmatch(text.strip()))
    return well_formed


def interleaved(weight: Matrix, heads: int) -> Matrix:
    """A query or key matrix in llama.cpp's order, which rotates neighbouring rows and not halves."""
    size = weight.shape[0]
    return weight.reshape(heads, 2, size // heads // 2, size).swapaxes(1, 2).reshape(size, size)


def add_metadata(writer: gguf.GGUFWriter, tokenizer: Tokenizer, config: LlamaConfig) -> None:
    """The model's sizes, its tokenizer and its chat template."""
    writer.add_name("tiny-judge")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_attention_heads)
    writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    vocabulary = tokenizer.get_vocab()
    tokens = sorted(vocabulary, key=vocabulary.__getitem__)
    writer.add_token_list(tokens)
    writer.add_token_types(
        [gguf.TokenType.CONTROL if t in SPECIAL else gguf.TokenType.NORMAL for t in tokens]
    )
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    writer.add_token_merges(
        [merge if isinstance(merge, str) else " ".join(merge) for merge in merges]
    )
    writer.add_bos_token_id(BOS)
    writer.add_eos_token_id(END)
    writer.add_pad_token_id(PAD)
    writer.add_add_bos_token(False)  # noqa: FBT003
    writer.add_chat_template(CHAT_TEMPLATE)


def add_weights(writer: gguf.GGUFWriter, model: LlamaForCausalLM) -> None:
    """The model's tensors under llama.cpp's names."""
    weights = {name: tensor.float().numpy() for name, tensor in model.state_dict().items()}
    heads = model.config.num_attention_heads
    writer.add_tensor("token_embd.weight", weights["model.embed_tokens.weight"])
    writer.add_tensor("output_norm.weight", weights["model.norm.weight"])
    for i in range(model.config.num_hidden_layers):
        ours, theirs = f"blk.{i}", f"model.layers.{i}"
        for name in "qk":
            weight = interleaved(weights[f"{theirs}.self_attn.{name}_proj.weight"], heads)
            writer.add_tensor(f"{ours}.attn_{name}.weight", weight)
        for name, source in {
            "attn_v": "self_attn.v_proj",
            "attn_output": "self_attn.o_proj",
            "ffn_gate": "mlp.gate_proj",
            "ffn_up": "mlp.up_proj",
            "ffn_down": "mlp.down_proj",
            "attn_norm": "input_layernorm",
            "ffn_norm": "post_attention_layernorm",
        }.items():
            writer.add_tensor(f"{ours}.{name}.weight", weights[f"{theirs}.{source}.weight"])


def write_gguf(path: Path, model: LlamaForCausalLM, tokenizer: Tokenizer) -> None:
    """Model and tokenizer as one file for llama.cpp."""
    writer = gguf.GGUFWriter(path, "llama")
    add_metadata(writer, tokenizer, model.config)
    add_weights(writer, model)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def parse_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=0)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--ffn", type=int, default=384)
    parser.add_argument("--vocab", type=int, default=512)
    parser.add_argument("--ctx", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    """Tokenizer, model, training, then both forms of the result."""
    options = parse_options()
    rng = random.Random(options.seed)
    torch.manual_seed(options.seed)
    torch.set_num_threads(int(os.environ.get("THREADS", "2")))
    tokenizer = train_tokenizer(rng, options.vocab)
    config = LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=options.dim,
        intermediate_size=options.ffn,
        num_hidden_layers=options.layers,
        num_attention_heads=options.heads,
        num_key_value_heads=options.heads,
        max_position_embeddings=options.ctx,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        bos_token_id=BOS,
        eos_token_id=END,
        pad_token_id=PAD,
    )
    model = LlamaForCausalLM(config)
    print("parameters:", sum(p.numel() for p in model.parameters()))
    if options.minutes:
        train(model, tokenizer, rng, options)
        print(
            "well formed:",
            well_formed_answers(model, tokenizer, random.Random(99)),
            "of 200 sampled answers",
        )
    model.eval()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=SPECIAL[BOS],
        eos_token=SPECIAL[END],
        pad_token=SPECIAL[PAD],
        additional_special_tokens=SPECIAL[3:],
    )
    fast.chat_template = CHAT_TEMPLATE
    folder = options.out / "hf"
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    write_gguf(options.out / "model.gguf", model, tokenizer)
    print("bytes:", (options.out / "model.gguf").stat().st_size)


if __name__ == "__main__":
    main()
