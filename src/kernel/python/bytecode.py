"""Compiles the modules of unpacked wheels to bytecode, for all sandboxes that have them.

The server runs this file as ordinary code in a cell of its own without a network. The request is
the global REQUEST: {"keys": [folder of /krait/packages], "limit": bytes}. For each key it prints
{"key": key}, {"data": base64} as often as it takes, and {"end": true}: a zip archive with the names
that `site` would have ("numpy/__pycache__/x.cpython-311.pyc"). No code of a wheel runs: its source
is parsed, and nothing of it is imported. Without bytecode a wheel works all the same, only later.
"""
import base64
import importlib._bootstrap_external as external
import importlib.util
import io
import json
import os
import warnings
import zipfile

STORE = "/krait/packages"
PIECE = 48 << 10


def put(value):
    print(json.dumps(value), flush=True)


def bytecode(path):
    """Of one file, which is never looked at again (PEP 552's unchecked form); None: it is no
    Python of this version.
    """
    with open(path, "rb") as file:
        source = file.read()
    try:
        code = compile(source, path, "exec", dont_inherit=True, optimize=-1)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return external._code_to_hash_pyc(code, importlib.util.source_hash(source), False)


def archive(site, limit):
    """A zip of the bytecode of all that is beneath `site`, None: too much of it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as made:
        for folder, _folders, files in os.walk(site):
            for name in sorted(files):
                if not name.endswith(".py"):
                    continue
                path = os.path.join(folder, name)
                data = bytecode(path)
                if data is not None:
                    target = importlib.util.cache_from_source(path)
                    made.writestr(os.path.relpath(target, site), data)
                if out.tell() > limit:
                    return None
    return out.getvalue()


def main(request):
    warnings.simplefilter("ignore")
    for key in request["keys"]:
        data = archive(os.path.join(STORE, key, "site"), request["limit"])
        if not data:
            continue
        put({"key": key})
        for at in range(0, len(data), PIECE):
            put({"data": base64.b64encode(data[at : at + PIECE]).decode("ascii")})
        put({"end": True})


if __name__ == "__main__":
    main(globals()["REQUEST"])
