"""Turns Kafka's message definitions into kafka-wire's static table. Run by `generate`."""

import fnmatch
import json
import pathlib
import re
import sys
import tomllib
import zipfile

ENTITY_ROLES = {
    "topicName": "Topic",
    "groupId": "Group",
    "transactionalId": "TransactionalId",
    "brokerId": "NodeId",
    "producerId": "ProducerId",
}
# The types a role may stand on. A role that is not listed stands on strings only.
ROLE_TYPES = {
    "AclHost": {"string"},
    "ConsumerProtocolAssignment": {"bytes"},
    "ConsumerProtocolSubscription": {"bytes"},
    "Enveloped": {"bytes"},
    "ErrorCode": {"int16"},
    "MemberPort": {"uint16"},
    "NodeId": {"int32"},
    "Opaque": None,
    "Port": {"int32", "uint16"},
    "ProducerId": {"int64"},
    "Records": {"records"},
    "Secret": {"bytes"},
    "ThrottleMs": {"int32"},
    "TopicId": {"uuid"},
}
KINDS = {
    "bool": "Bool",
    "int8": "Int8",
    "int16": "Int16",
    "uint16": "Uint16",
    "int32": "Int32",
    "uint32": "Uint32",
    "int64": "Int64",
    "float64": "Float64",
    "uuid": "Uuid",
    "string": "String",
    "bytes": "Bytes",
    "records": "Records",
}
# These must be looked at: a role or an explicit "Opaque".
MUST_BE_SAID = {"string", "bytes", "records", "uuid"}
EMBEDDED = ["ConsumerProtocolSubscription", "ConsumerProtocolAssignment"]


def snake(name):
    """DescribeUserScramCredentials -> describe_user_scram_credentials."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def definitions(jar):
    """Every message definition of the artifact, by name."""
    found = {}
    with zipfile.ZipFile(jar) as archive:
        for name in archive.namelist():
            if name.startswith("common/message/") and name.endswith(".json"):
                text = archive.read(name).decode()
                # The definitions hold whole-line comments and comments behind a value.
                text = re.sub(r'^\s*//.*$|(?<=[,{}\[\]"])\s*//.*$', "", text, flags=re.M)
                message = json.loads(text)
                found[message["name"]] = message
    return found


def versions(text):
    """'3+' -> 'from(3)', '0-12' -> 'to(0, 12)', 'none' -> 'NONE'."""
    if text == "none":
        return "NONE"
    if text.endswith("+"):
        return f"from({text[:-1]})"
    low, _, high = text.partition("-")
    return f"to({low}, {high or low})"


class Roles:
    """entityType, then the overlay; remembers which overlay lines were of use."""

    def __init__(self, overlay):
        self.exact = {path: role for path, role in overlay.items() if "*" not in path}
        self.wild = {path: role for path, role in overlay.items() if "*" in path}
        self.used = set()
        self.faults = []

    def of(self, path, base, entity):
        if path in self.exact:
            said, matches = self.exact[path], [path]
        else:
            matches = [p for p in self.wild if fnmatch.fnmatchcase(path, p)]
            said = self.wild[matches[0]] if matches else None
            if len(matches) > 1:
                self.faults.append(f"{path}: matched by {' and '.join(matches)}")
        if base[0].isupper():
            return None, None
        if entity is not None:
            if entity not in ENTITY_ROLES:
                self.faults.append(f"{path}: unknown entityType {entity}")
            return ENTITY_ROLES.get(entity), None
        self.used.update(matches)
        if said is None:
            if base in MUST_BE_SAID:
                self.faults.append(f"{path}: {base} with neither a role nor \"Opaque\"")
            return None, None
        role, _, decider = said.partition(" by ")
        allowed = ROLE_TYPES.get(role, {"string"})
        if allowed is not None and base not in allowed:
            self.faults.append(f"{path}: {role} cannot stand on {base}")
        return role, decider or None

    def unused(self):
        return sorted((set(self.exact) | set(self.wild)) - self.used)


class Writer:
    """One message as Rust statics: its structs first, then itself."""

    def __init__(self, message, prefix, roles):
        self.message, self.prefix, self.roles = message, prefix, roles
        self.common = {s["name"]: s for s in message.get("commonStructs", [])}
        self.lines, self.statics = [], {}

    def write(self):
        message = self.message
        fields = self.fields(message["fields"], message["name"])
        flexible = versions(message.get("flexibleVersions", "none"))
        self.lines += [
            f"pub(in crate::schema) static {self.prefix}: Message = Message {{",
            f"    name: \"{message['name']}\",",
            f"    versions: {versions(message['validVersions'])},",
            f"    flexible: {flexible},",
            "    fields: &[",
            *fields,
            "    ],",
            "};",
        ]
        return self.lines

    def struct(self, name, fields, path):
        """The static of a struct; a common struct used twice has two when its roles differ."""
        body = self.fields(fields, path)
        static = f"{self.prefix}_{snake(name).upper()}"
        while static in self.statics and self.statics[static] != body:
            static += "_2"
        if static not in self.statics:
            self.statics[static] = body
            self.lines += [
                f"static {static}: Struct = Struct {{",
                f"    name: \"{name}\",",
                "    fields: &[",
                *body,
                "    ],",
                "};",
                "",
            ]
        return static

    def fields(self, fields, path):
        return [self.field(field, f"{path}.{field['name']}") for field in fields]

    def field(self, field, path):
        base = field["type"].removeprefix("[]")
        role, decider = self.roles.of(path, base, field.get("entityType"))
        if base in KINDS:
            kind = KINDS[base]
        else:
            nested = field.get("fields") or self.common[base]["fields"]
            kind = f"Struct(&{self.struct(base, nested, path)})"
        text = f"        field(\"{field['name']}\", {versions(field['versions'])}, {kind})"
        if field["type"].startswith("[]"):
            text += ".array()"
        if field.get("nullableVersions", "none") != "none":
            text += f".nullable({versions(field['nullableVersions'])})"
        if "tag" in field:
            text += f".tagged({field['tag']}, {versions(field['taggedVersions'])})"
        if role:
            text += f".role(Role::{role})"
        if decider:
            text += f".decided_by(\"{decider}\")"
        return text + ","


def generate(jar, overlay_path):
    """File name -> text, and the list of faults."""
    overlay = tomllib.loads(pathlib.Path(overlay_path).read_text())
    found = definitions(jar)
    roles = Roles(overlay)
    source = pathlib.Path(jar).stem
    head = f"Generated by ci/schema/generate from {source}; do not edit."
    files, requests, responses = {}, {}, {}
    for message in found.values():
        if message.get("apiKey") is not None and message["validVersions"] != "none":
            side = requests if message["type"] == "request" else responses
            side[message["apiKey"]] = message

    def file(title, parts):
        text = [f"//! {title}. {head}", "", "use super::super::build::*;", ""]
        for prefix, message in parts:
            text += Writer(message, prefix, roles).write() + [""]
        return "\n".join(text[:-1]) + "\n"

    modules = []
    for key in sorted(requests):
        api = requests[key]["name"].removesuffix("Request")
        modules.append((key, snake(api)))
        files[f"{snake(api)}.rs"] = file(
            api, [("REQUEST", requests[key]), ("RESPONSE", responses[key])]
        )
    files["consumer_protocol.rs"] = file(
        "The blobs of the classic consumer protocol",
        [(snake(name.removeprefix("ConsumerProtocol")).upper(), found[name]) for name in EMBEDDED],
    )
    mod = [f"//! The table, one file per API. {head}", ""]
    for name in sorted([m for _, m in modules] + ["consumer_protocol"]):
        mod += ["#[rustfmt::skip]", f"pub(super) mod {name};"]
    last = max(requests)
    by_key = dict(modules)
    mod += ["", "use super::Message;", "use crate::api::ApiKey;", ""]
    for static in ("REQUEST", "RESPONSE"):
        mod.append(f"pub(super) static {static}S: [Option<&Message>; ApiKey::COUNT] = [")
        for key in range(last + 1):
            name = by_key.get(key)
            mod.append(f"    Some(&{name}::{static})," if name else "    None,")
        mod += ["];", ""]
    files["mod.rs"] = "\n".join(mod[:-1]) + "\n"
    faults = roles.faults + [f"overlay: {path} matches nothing unmarked" for path in roles.unused()]
    return files, faults


def main():
    arguments = [a for a in sys.argv[1:] if a != "--check"]
    check = "--check" in sys.argv[1:]
    jar, overlay, out = arguments
    files, faults = generate(jar, overlay)
    if faults:
        sys.exit("\n".join(faults))
    out = pathlib.Path(out)
    present = {p.name: p.read_text() for p in out.glob("*.rs")}
    if check:
        stale = sorted(n for n in files.keys() | present.keys() if files.get(n) != present.get(n))
        if stale:
            sys.exit(f"stale: {' '.join(stale)}; run ci/schema/generate")
        print(f"the table is what {pathlib.Path(jar).name} gives ({len(files)} files)")
        return
    out.mkdir(parents=True, exist_ok=True)
    for name in present.keys() - files.keys():
        (out / name).unlink()
    for name, text in files.items():
        (out / name).write_text(text)


if __name__ == "__main__":
    main()
