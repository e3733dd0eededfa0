"""Lists the fields that the typed crate (kafka-protocol) gives a name type: a second opinion on our
roles. Prints `file struct field type` per line; the committed list is
reference-impl/kafka-wire/tests/it/wire/typed_names.txt. Run from the repository:
`python3 ci/schema/typed_names.py > reference-impl/kafka-wire/tests/it/wire/typed_names.txt`.
"""

import json
import pathlib
import re
import subprocess

metadata = json.loads(
    subprocess.run(
        ["cargo", "metadata", "--format-version", "1", "--offline"],
        check=True,
        capture_output=True,
    ).stdout
)
manifest = next(p for p in metadata["packages"] if p["name"] == "kafka-protocol")["manifest_path"]
for path in sorted((pathlib.Path(manifest).parent / "src" / "messages").glob("*.rs")):
    struct = None
    for line in path.read_text().splitlines():
        if opened := re.match(r"pub struct (\w+) \{", line):
            struct = opened.group(1)
        elif field := re.match(
            r"    pub (\w+): .*super::(TopicName|GroupId|TransactionalId|BrokerId|ProducerId)\b", line
        ):
            print(path.stem, struct, field.group(1), field.group(2))
