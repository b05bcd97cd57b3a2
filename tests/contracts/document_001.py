#!/usr/bin/python3
"""Document 001 (python-sandbox: Python Sandbox Server): what its clients rely on over MCP, a check a row of its
contract.

Rows about the import policy, profiles, validation and containers (02 to 05, 10, 12 to 17, 19, 21) belong to those.
Until there is a policy execute_code runs `open` and says so (tests/mcp/dialects.py).
"""
import json
import os
import socket
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/lib"))
import real_client  # noqa: E402
from check import check, contains, equal, skip  # noqa: E402
from krait_server import KRAIT, Server  # noqa: E402
from mcp import Http, Sse, Stdio  # noqa: E402
from serving import kept, main  # noqa: E402

DIALECT = ["--dialect", "python-sandbox"]
FIBONACCI = """
def fibonacci(n):
    if n <= 1:
        return n
    return fibonacci(n-1) + fibonacci(n-2)

result = [fibonacci(i) for i in range(10)]
print("Fibonacci sequence:", result)
                """
STATISTICS = """
import statistics
data = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
mean = statistics.mean(data)
median = statistics.median(data)
stdev = statistics.stdev(data)

result = {
    'mean': mean,
    'median': median,
    'std_dev': stdev
}
print(f"Statistics: {result}")
"""
SORT = """
def bubble_sort(arr):
    n = len(arr)
    for i in range(n):
        for j in range(0, n-i-1):
            if arr[j] > arr[j+1]:
                arr[j], arr[j+1] = arr[j+1], arr[j]
    return arr

test_data = [64, 34, 25, 12, 22, 11, 90]
result = bubble_sort(test_data.copy())
print(f"Sorted: {result}")
"""
PI = """
import math

def calculate_pi_leibniz(terms):
    pi_approx = 0
    for i in range(terms):
        pi_approx += ((-1) ** i) / (2 * i + 1)
    return pi_approx * 4

result = calculate_pi_leibniz(1000)
print(f"Pi approximation: {result}")
print(f"Difference from math.pi: {abs(result - math.pi)}")
"""


def server() -> Server:
    return kept(args=DIALECT)


def value(result: dict) -> dict:
    """content[0].text, which parses; and the structure is the same."""
    assert not result.get("isError"), result
    told = json.loads(result["content"][0]["text"])
    equal(result["structuredContent"], told)
    return told


def real():
    return real_client.at(server().port, "/mcp")


def execute(code: str, **more) -> dict:
    """By the suite's client, and by one that others wrote: both are told the same."""
    with Http(server().port) as c:
        got = value(c.tool("execute_code", {"code": code, **more}))
    if real():
        again = value(real().tool("execute_code", {"code": code, **more}))
        own = ("execution_id", "execution_time")
        equal({k: v for k, v in again.items() if k not in own}, {k: v for k, v in got.items() if k not in own})
    return got


@check
def row_001_01_the_first_example():
    got = execute("result = 2 + 2\nprint(f'The answer is: {result}')", timeout=10, capture_output=True)
    equal((got["success"], got["result"], got["stdout"], got["stderr"]), (True, 4, "The answer is: 4\n", ""))
    uuid.UUID(got["execution_id"])
    assert got["execution_time"] >= 0, got
    equal(got["variables"], ["result"])


@check
def row_001_06_recursive_fibonacci():
    got = execute(FIBONACCI)
    equal(got["result"], [0, 1, 1, 2, 3, 5, 8, 13, 21, 34])
    equal(got["stdout"], "Fibonacci sequence: [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]\n")


@check
def row_001_07_statistics():
    got = execute(STATISTICS)
    equal(got["result"], {"mean": 5.5, "median": 5.5, "std_dev": 3.0276503540974917})
    equal(got["stdout"], "Statistics: {'mean': 5.5, 'median': 5.5, 'std_dev': 3.0276503540974917}\n")


@check
def row_001_08_bubble_sort():
    got = execute(SORT)
    equal(got["result"], [11, 12, 22, 25, 34, 64, 90])
    equal(got["stdout"], "Sorted: [11, 12, 22, 25, 34, 64, 90]\n")


@check
def row_001_09_leibniz():
    got = execute(PI)
    equal(got["result"], 3.140592653839794)
    equal(got["stdout"].splitlines(),
          ["Pi approximation: 3.140592653839794", "Difference from math.pi: 0.000999999749998981"])


@check
def row_001_11_a_batch_shares_nothing():
    first = execute("print('Hello, World!')", timeout=5)
    second = execute("result = sum(range(10))", timeout=5)
    third = execute("import math; print(math.pi)", timeout=5)
    equal((first["stdout"], second["result"], third["stdout"]), ("Hello, World!\n", 45, "3.141592653589793\n"))
    fourth = execute("print('result' in globals(), 'math' in globals())", timeout=5)
    equal(fourth["stdout"], "False False\n")
    execute("open('left','w').write('x')")
    equal(execute("import os\nresult = os.listdir()")["result"], [], "nor files")


@check
def row_001_18_a_last_expression_is_the_result():
    for code, expected in (("1 + 1", 2), ("x = 5\nx * 2", 10), ('len("hello")', 5), ("2 + 2", 4)):
        equal(execute(code)["result"], expected, code)
    failed = execute("1 / 0")
    equal(failed["success"], False)
    contains(failed["error"], "ZeroDivisionError")
    contains(failed["traceback"], "division by zero")


@check
def row_001_20_a_stdio_client():
    with tempfile.TemporaryDirectory(prefix="krait-test-") as here:
        os.chmod(here, 0o755)
        argv = [os.path.abspath(KRAIT), "mcp", *DIALECT, "--no-files", "--preload", "basic", "--data", here + "/data"]
        with Stdio(argv) as c:
            equal([t["name"] for t in c.call("tools/list")["tools"]][0], "execute_code")
            equal(value(c.tool("execute_code", code="1 + 1"))["result"], 2)
            equal(c.garbage, [])


@check
def row_001_20_a_gateway_is_given_the_bare_address():
    s = server()
    with Http(s.port, "/") as c:  # JSON-RPC posted to the root, as `make test-http` does
        equal([t["name"] for t in c.call("tools/list")["tools"]][0], "execute_code")
        equal(value(c.tool("execute_code", code="1 + 1"))["result"], 2)
    with Sse(s.port, "/") as c:  # a gateway that takes it for a server of the older transport
        equal(json.loads(c.tool("execute_code", code="2 + 2")["content"][0]["text"])["result"], 4)


@check
def row_001_20_its_own_port_is_the_one_that_gateways_are_told():
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", 9000))
        except OSError:
            skip("port 9000 is taken by another program")
    with Server(args=DIALECT, usual=["--no-files"]) as s:
        equal(s.port, 9000)
        with Http(9000, "/", headers={"Host": "localhost:9000"}) as c:
            equal(value(c.tool("execute_code", code="1 + 1"))["result"], 2)


@check
def row_001_20_make_names_both_starts():
    for target, words in (("dev", "krait mcp --dialect python-sandbox"),
                          ("serve-http", "krait --dialect python-sandbox")):
        said = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, timeout=60)
        equal(said.returncode, 0, said.stderr[-300:])
        contains(said.stdout, words)


@check
def rows_went_through_a_client_that_others_wrote():
    if not real():
        skip("npm could not fetch mcp-remote: the rows went through the suite's own client alone")


main()
