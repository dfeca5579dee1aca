"""Texts on which tokenizers go wrong, and prose to train little ones on."""

PROSE = [
    "The quick brown fox jumps over the lazy dog, and says hello to the world. It isn't late; they've 3,141 of them.",
    "def add(first, second):\n    return first + second\n\n\nfor i in range(10):\n\tprint(i, add(i, 2 * i))\n",
    "Größe, Übermut und Maß: die Straße nach Süden. À bientôt, ça va? Où est l'été? ¿Qué tal, señor?",
    "日本語の文章です。東京は大きい。 今日は天気がいいですね。 Привет, мир! Как дела?",
    "COVID-19 is caused by SARS-CoV-2; 5 % of patients (n = 42) had IL-6 levels above 10.5 pg/mL, e.g. in Fig. 2.",
    "Dr. Smith's study of the TNF-α pathway was not significant (p > 0.05), whereas BRCA1 mutations were.",
    "She said: \"I don't know what you're talking about\", and left. He didn't. 'Really?' [sic] {a: 1} <b> & a | b",
    "https://example.com/path?query=1#part user@example.com 12:30 2024-01-31 $5.00 €3 100% #tag @name C++ a_b __init__",
    "The end of the story is the beginning of another one. The more the merrier. The less said the better.",
]

TEXTS = [
    "",
    " ",
    "   ",
    "\n",
    "Hello world",
    " Hello world",
    "  Hello  world  ",
    "Hello world ",
    "a\tb\t\tc",
    "line one\nline two\n\n\n  indented\r\nwindows\r\n",
    "def f(x):\n    if x:\n        return {'a': [1, 2.5]}\n    # comment\n\treturn None",
    "It's they've I'll we'd CAN'T o'clock 'quoted' \"double\" `tick` rock 'n' roll the students' work",
    "größer Straße café cafe\u0301 e\u0301\u0302 n\u0303 \u212b \ufb01 ﬂ ½ ² ³ № ™ …",
    "日本語の文章、東京。한국어 텍스트 中文测试",
    "Ελληνικά русский עברית العربية हिन्दी ไทย",
    "🙂 🙃 👩‍👩‍👧‍👦 🇩🇪 👍🏽 ❤️ ☃",
    "\u00a0nbsp\u3000ideographic\u2003em\u200bzero\u200dwidth\ufeffbom",
    "fullwidth ＡＢＣ１２３ ，。！ ㍿ ㌔ ｶﾞ",
    "<s>not a start</s> <pad> <unk> <|endoftext|> <|im_start|>user",
    "text<s>inside</s>words <mask> <extra_id_0> <extra_id_1>x",
    "<0x41><0x0A> ▁under▁score _ ▁▁ ▁",
    "1234567890 3.14159 1,000,000 0x1F 1e-10 50% $5.00 5'4\" 10.5. ,5 5, 1,2,3",
    "...!!??--—–‘single’“double”«guillemets»",
    "e.g. i.e. Dr. Smith vs. Mr. Jones, Fig. 2 and No. 5 etc. The end. A.B. no. 7 p.m. ... wait.. what....",
    "COVID-19 SARS-CoV-2 IL-6 TNF-α β-catenin (n = 42; p < 0.05) [12] {x} a/b and/or 5-HT2A 10⁻³ mol·L⁻¹ ± µg °C",
    "& < > | [ ] ' \" &amp; &lt; @-@ @@ @ # %",
    "ALL CAPS camelCase snake_case kebab-case UPPER_snake PascalCase",
    "a" * 60,
    "ab" * 40 + " " * 40 + "\n" * 5,
    "\x00\x01\x1f\x7f\x80\x9f control",
    "supercalifragilisticexpialidocious pneumonoultramicroscopicsilicovolcanoconiosis",
    'x = \'a\' if b else "c"; y = f"{x!r:>10}"  # noqa\n',
    "https://example.com/a?b=c&d=e#f user@example.com",
]

LONG = "\n".join(TEXTS) * 20
"""A very long one, of which goldens keep only the number of tokens and their checksum."""
