from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class DescribeRequest(_message.Message):
    __slots__ = ("protocol_version",)
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    def __init__(self, protocol_version: _Optional[int] = ...) -> None: ...

class Terms(_message.Message):
    __slots__ = ("protocol_version", "terms_json")
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    TERMS_JSON_FIELD_NUMBER: _ClassVar[int]
    protocol_version: int
    terms_json: str
    def __init__(self, protocol_version: _Optional[int] = ..., terms_json: _Optional[str] = ...) -> None: ...

class QueryBlock(_message.Message):
    __slots__ = ("features", "rows", "probabilities")
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    PROBABILITIES_FIELD_NUMBER: _ClassVar[int]
    features: int
    rows: bytes
    probabilities: bytes
    def __init__(self, features: _Optional[int] = ..., rows: _Optional[bytes] = ..., probabilities: _Optional[bytes] = ...) -> None: ...

class Answers(_message.Message):
    __slots__ = ("outcomes", "labels", "counts")
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    outcomes: bytes
    labels: bytes
    counts: bytes
    def __init__(self, outcomes: _Optional[bytes] = ..., labels: _Optional[bytes] = ..., counts: _Optional[bytes] = ...) -> None: ...
