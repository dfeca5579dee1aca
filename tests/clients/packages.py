"""Drive a running server with the packages that people use: packages.py URL CHAT_MODEL CODE_MODEL [PACKAGE ...]."""

# mypy: ignore-errors
# The packages are in an environment of their own, see README.md there.

import sys
import time
from importlib.metadata import version

URL, CHAT, CODE = sys.argv[1:4]
HELLO = [{"role": "user", "content": "Hello, who are you?"}]
FEW = 12


def with_openai():
    import openai

    client = openai.OpenAI(base_url=f"{URL}/v1", api_key="none", max_retries=0)
    assert {CHAT, CODE} <= {one.id for one in client.models.list()}
    whole = client.chat.completions.create(
        model=CHAT, messages=HELLO, max_tokens=FEW, seed=1, logprobs=True, top_logprobs=2
    )
    assert whole.usage.completion_tokens == FEW == len(whole.choices[0].logprobs.content)
    stream = client.chat.completions.create(
        model=CHAT, messages=HELLO, max_tokens=FEW, seed=1, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content and chunks[-1].usage.completion_tokens == FEW
    two = client.completions.create(model=CODE, prompt="def add(", max_tokens=FEW, n=2, temperature=1)
    assert len(two.choices) == 2
    gap = client.completions.create(model=CODE, prompt="def add(a, b):\n    return ", suffix="\n", max_tokens=FEW)
    assert gap.choices[0].finish_reason
    ids = client.completions.create(model=CODE, prompt=[300, 301, 302], max_tokens=2)
    assert ids.usage.prompt_tokens == 3
    response = client.responses.create(model=CHAT, input="Hello", max_output_tokens=FEW)
    assert response.status == "incomplete" and response.output_text
    with client.responses.stream(model=CHAT, input="Hello", max_output_tokens=FEW) as events:
        kinds = [one.type for one in events]
    assert kinds[0] == "response.created" and kinds[-1] == "response.incomplete"
    for act, kind, param in (
        (
            lambda: client.chat.completions.create(model=CHAT, messages=HELLO, extra_body={"tempature": 1}),
            openai.BadRequestError,
            "tempature",
        ),
        (lambda: client.chat.completions.create(model="nobody", messages=HELLO), openai.NotFoundError, "model"),
        (lambda: client.embeddings.create(model=CHAT, input="x"), openai.BadRequestError, "model"),
    ):
        try:
            act()
        except kind as error:
            assert error.param == param, error
        else:
            raise AssertionError(kind)


def with_anthropic():
    import anthropic

    client = anthropic.Anthropic(base_url=URL, api_key="none", max_retries=0)
    whole = client.messages.create(model=CHAT, messages=HELLO, max_tokens=FEW, system="Be brief.")
    assert whole.stop_reason == "max_tokens" and whole.content[0].text and whole.usage.output_tokens == FEW
    with client.messages.stream(model=CHAT, messages=HELLO, max_tokens=FEW) as stream:
        text = "".join(stream.text_stream)
        assert (
            text == stream.get_final_message().content[0].text and stream.get_final_message().usage.output_tokens == FEW
        )
    assert client.messages.count_tokens(model=CHAT, messages=HELLO).input_tokens > 5
    assert CHAT in {one.id for one in client.models.list()}
    try:
        client.messages.create(model="nobody", messages=HELLO, max_tokens=1)
    except anthropic.NotFoundError as error:
        assert error.body["error"]["type"] == "not_found_error"
    else:
        raise AssertionError


def with_ollama():
    import ollama

    client = ollama.Client(URL)
    assert {CHAT, CODE} <= {one.model for one in client.list().models}
    shown = client.show(CODE)
    assert "insert" in shown.capabilities and ".Suffix" in shown.template and shown.modelinfo["general.architecture"]
    whole = client.chat(CHAT, HELLO, options={"num_predict": FEW, "seed": 1})
    parts = list(client.chat(CHAT, HELLO, stream=True, options={"num_predict": FEW, "seed": 1}))
    assert "".join(one.message.content for one in parts) == whole.message.content
    assert parts[-1].done and parts[-1].done_reason == "length" and parts[-1].eval_count == FEW
    assert client.generate(CODE, "def add(", options={"num_predict": FEW}).response
    client.generate(CODE, "def add(a, b):\n    return ", suffix="\n", options={"num_predict": FEW})
    client.generate(CODE, "", keep_alive=60)
    assert CODE in {one.model for one in client.ps().models}
    try:
        client.embed(CODE, "x")
    except ollama.ResponseError as error:
        assert "embedding" in error.error
    else:
        raise AssertionError
    try:
        client.generate(CODE, "x", options={"tempature": 1})
    except ollama.ResponseError as error:
        assert "tempature" in error.error
    else:
        raise AssertionError
    client.copy(CODE, "copied-by-a-client")
    client.delete("copied-by-a-client")


def with_langchain_openai():
    from langchain_openai import ChatOpenAI

    chat = ChatOpenAI(base_url=f"{URL}/v1", api_key="none", model=CHAT, max_tokens=FEW, max_retries=0)
    assert chat.invoke("Hello").content
    assert "".join(one.content for one in chat.stream("Hello"))


def with_langchain_ollama():
    from langchain_ollama import ChatOllama

    chat = ChatOllama(base_url=URL, model=CHAT, num_predict=FEW, temperature=0, num_ctx=2048)
    assert chat.invoke("Hello").content
    assert "".join(one.content for one in chat.stream("Hello"))


def with_tritonclient():
    import numpy as np
    import tritonclient.http as triton

    client = triton.InferenceServerClient(URL.removeprefix("http://"))
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready(CODE)
    assert client.get_model_metadata(CODE)["outputs"][0]["name"] == "text_output"
    texts = []
    for binary in (True, False):
        text = triton.InferInput("text_input", [1], "BYTES")
        text.set_data_from_numpy(np.array([b"def add("], dtype=object), binary_data=binary)
        most = triton.InferInput("max_tokens", [1], "INT32")
        most.set_data_from_numpy(np.array([FEW], np.int32), binary_data=binary)
        greedy = triton.InferInput("temperature", [1], "FP32")
        greedy.set_data_from_numpy(np.array([0], np.float32), binary_data=binary)
        output = triton.InferRequestedOutput("text_output", binary_data=binary)
        texts.append(client.infer(CODE, [text, most, greedy], outputs=[output]).as_numpy("text_output")[0])
    assert texts[0] == texts[1].encode() if isinstance(texts[1], str) else texts[0] == texts[1], texts
    client.infer(CODE, [text, most])


def with_litellm():
    import litellm

    for model, base in ((f"openai/{CHAT}", f"{URL}/v1"), (f"ollama_chat/{CHAT}", URL), (f"anthropic/{CHAT}", URL)):
        whole = litellm.completion(model, HELLO, api_base=base, api_key="none", max_tokens=FEW)
        assert whole.choices[0].message.content, model
        parts = litellm.completion(model, HELLO, api_base=base, api_key="none", max_tokens=FEW, stream=True)
        assert "".join(one.choices[0].delta.content or "" for one in parts), model
    text = litellm.text_completion(
        "def add(", f"text-completion-openai/{CODE}", api_base=f"{URL}/v1", api_key="none", max_tokens=FEW
    )
    assert text.choices[0].text


DISTRIBUTIONS = {"with_langchain_openai": "langchain-openai", "with_langchain_ollama": "langchain-ollama"}
for name, drive in list(globals().items()):
    if name.startswith("with_") and (len(sys.argv) < 5 or name.removeprefix("with_") in sys.argv[4:]):
        package = DISTRIBUTIONS.get(name, name.removeprefix("with_"))
        try:
            told = version(package)
        except Exception:
            print(f"-- {package} is not installed here")
            continue
        start = time.perf_counter()
        drive()
        print(f"ok {package} {told} in {time.perf_counter() - start:.1f} s")
