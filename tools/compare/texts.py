"""Texts on which tokenizers differ if they differ at all."""
import random

HARD = [
    "", " ", "  ", "\n", "\n\n", " \n ", "\t\tx", "a", " a", "a ", "Hello, world!", "it's they're I'LL we\u2019ve",
    "'S 'T '\u017f x'\u017fa 'Re'VE", "don't Don'T", "12345 1 22 333 4444", "3.14159e-10", "caf\u00e9 cafe\u0301",
    "\u1e9b\u0323 \u212b \ufb01 \u2126", "\uac00\u1100\u1161\u11a8", "\u4f60\u597d\u4e16\u754c 123", "\U0001f600\U0001f468\u200d\U0001f469",
    "\u0661\u0662\u0663 \u00bd \u2167", "a\u00a0b\u3000c\u2003d", "x\r\ny\r\rz\n \n", "foo   bar\n   baz  ", "...!!!\n\n???",
    "<s>hello</s> <unk>", "<|endoftext|>a<|endoftext|>", "\u2581a \u2581", "\u0000\u0001\u007f", "\u0e01\u0e33 \u0931\u094d\u092f",
    "\u1e0a\u0323\u0307 q\u0307\u0323", "_under_score__", "http://a.b/c?d=e&f=%20", "\u202eabc\u202c", "\ufeffBOM", "\u2028line\u2029",
]
_POOLS = [
    "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789", " ", " ", "  \t", "\n", "\r\n", ".,;:!?'\"()-_/\\<>|[]{}",
    "\u00e9\u00e8\u00fc\u00df\u00f1\u0301\u0308\u0323", "\u0434\u0430\u043d\u0435\u0442", "\u4f60\u597d\u4e16\u754c\u3042\u30a2", "\uac00\ub098\u1100\u1161\u11a8",
    "\u0627\u0644\u0633\u0644\u0627\u0645\u064b", "\u0915\u094d\u0937\u093f", "\U0001f600\U0001f44d\U0001f3fd\u200d\ufe0f", "\u00a0\u2003\u3000\u2028",
    "\u0661\u00bd\u2167\u3007", "\u2581\u0100\u0120",
]
_WORDS = ("the of and to in that was is it's don't we'll I've training model gradient network <s> </s> <|endoftext|> "
          "na\u00efve \u00e9t\u00e9 2024 3.5 state-of-the-art").split()


def random_texts(seed, count):
    rng = random.Random(str(seed))
    made = []
    for i in range(count):
        parts = []
        for _ in range(rng.randint(1, 24)):
            kind = rng.random()
            if kind < 0.4:
                parts.append(rng.choice(_WORDS) + rng.choice(["", " ", " "]))
            elif kind < 0.95:
                pool = rng.choice(_POOLS)
                parts.append("".join(rng.choice(pool) for _ in range(rng.randint(1, 5))))
            else:
                point = rng.choice([rng.randrange(0x20, 0x3000), rng.randrange(0x20, 0xD800),
                                    rng.randrange(0xE000, 0x20000)])
                parts.append(chr(point))
        made.append("".join(parts))
    return made
