"""Write the Hugging Face checkpoint (bf16, names of Qwen3_5MoeForConditionalGeneration) with tokenizer and configs.

`mlx_lm.convert -q --q-bits 4 --q-group-size 64` then makes the MLX checkpoint of it.
"""

import argparse
import json
import os
import shutil


def text_config(c):
    """The text part of config.json for dimensions c."""
    return {
        "model_type": "qwen3_5_moe_text",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "attn_output_gate": True,
        "bos_token_id": c.vocab - 64,
        "eos_token_id": c.vocab - 64,
        "dtype": "bfloat16",
        "full_attention_interval": 4,
        "head_dim": c.head_dim,
        "hidden_act": "silu",
        "hidden_size": c.hidden,
        "initializer_range": 0.02,
        "layer_types": ["full_attention" if c.full(i) else "linear_attention" for i in range(c.layers)],
        "linear_conv_kernel_dim": c.conv,
        "linear_key_head_dim": c.lin_dim,
        "linear_num_key_heads": c.k_heads,
        "linear_num_value_heads": c.v_heads,
        "linear_value_head_dim": c.lin_dim,
        "mamba_ssm_dtype": "float32",
        "max_position_embeddings": 262144,
        "moe_intermediate_size": c.inter,
        "mtp_num_hidden_layers": 0,
        "num_attention_heads": c.heads,
        "num_experts": c.experts,
        "num_experts_per_tok": c.top_k,
        "num_hidden_layers": c.layers,
        "num_key_value_heads": c.kv_heads,
        "output_router_logits": False,
        "partial_rotary_factor": 0.25,
        "rms_norm_eps": c.eps,
        "rope_parameters": {
            "mrope_interleaved": True,
            "mrope_section": [11, 11, 10],
            "partial_rotary_factor": 0.25,
            "rope_theta": int(c.theta),
            "rope_type": "default",
        },
        "router_aux_loss_coef": 0.001,
        "shared_expert_intermediate_size": c.shared,
        "norm_topk_prob": True,
        "tie_word_embeddings": False,
        "use_cache": True,
        "vocab_size": c.vocab,
    }


def write_configs(c, tokenizer, template, out, temperature):
    """config, generation_config, tokenizer_config, tokenizer and chat template."""

    def dump(name, value):
        with open(f"{out}/{name}", "w", encoding="utf8") as file:
            json.dump(value, file, indent=2, ensure_ascii=False)

    with open(tokenizer, encoding="utf8") as file:
        added = json.load(file)["added_tokens"]
    ids = {token["content"]: token["id"] for token in added}
    end_of_text, end_of_turn = ids["<|endoftext|>"], ids["<|im_end|>"]
    text = text_config(c) | {"bos_token_id": end_of_text, "eos_token_id": end_of_text}
    dump(
        "config.json",
        {
            "architectures": ["Qwen3_5MoeForConditionalGeneration"],
            "model_type": "qwen3_5_moe",
            "image_token_id": ids["<|image_pad|>"],
            "video_token_id": ids["<|video_pad|>"],
            "vision_start_token_id": ids["<|vision_start|>"],
            "vision_end_token_id": ids["<|vision_end|>"],
            "text_config": text,
            "tie_word_embeddings": False,
            "dtype": "bfloat16",
            "language_model_only": True,
        },
    )
    dump(
        "generation_config.json",
        {
            "bos_token_id": end_of_text,
            "do_sample": True,
            "eos_token_id": [end_of_turn, end_of_text],
            "pad_token_id": end_of_text,
            "temperature": temperature,
            "top_k": 20,
            "top_p": 0.95,
        },
    )
    fields = ("content", "lstrip", "normalized", "rstrip", "single_word", "special")
    with open(template, encoding="utf8") as file:
        chat_template = file.read()
    dump(
        "tokenizer_config.json",
        {
            "add_bos_token": False,
            "add_prefix_space": False,
            "added_tokens_decoder": {str(token["id"]): {k: token[k] for k in fields} for token in added},
            "additional_special_tokens": [token["content"] for token in added[1:14]],
            "bos_token": None,
            "chat_template": chat_template,
            "clean_up_tokenization_spaces": False,
            "eos_token": "<|im_end|>",
            "errors": "replace",
            "model_max_length": 262144,
            "pad_token": "<|endoftext|>",
            "split_special_tokens": False,
            "tokenizer_class": "Qwen2Tokenizer",
            "unk_token": None,
        },
    )
    shutil.copy(tokenizer, f"{out}/tokenizer.json")
    shutil.copy(template, f"{out}/chat_template.jinja")


def main(shards, tokenizer, template, out, temperature):
    from safetensors.torch import load_file, save_file

    from model import Cfg

    os.makedirs(out, exist_ok=True)
    tensors = {}
    for name in sorted(os.listdir(shards)):
        if name.endswith(".safetensors"):
            tensors.update(load_file(f"{shards}/{name}"))
    renamed = {
        (
            "model.language_model." + name.removeprefix("model.") if name.startswith("model.") else name
        ): value.contiguous()
        for name, value in tensors.items()
    }
    save_file(renamed, f"{out}/model.safetensors", {"format": "pt"})
    write_configs(Cfg(), tokenizer, template, out, temperature)
    print(f"{len(renamed)} tensors, {sum(value.numel() for value in renamed.values())} parameters")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shards", help="the folder that train.py wrote")
    parser.add_argument("tokenizer", help="tokenizer.json")
    parser.add_argument("template", help="chat_template.jinja")
    parser.add_argument("out", help="Hugging Face folder to write")
    parser.add_argument("--temperature", type=float, default=0.6, help="sampling default (0.6)")
    main(**vars(parser.parse_args()))
