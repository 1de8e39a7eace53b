from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

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

class Progress(_message.Message):
    __slots__ = ("stage", "done", "total")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    stage: str
    done: int
    total: int
    def __init__(self, stage: _Optional[str] = ..., done: _Optional[int] = ..., total: _Optional[int] = ...) -> None: ...

class Answers(_message.Message):
    __slots__ = ("outcomes", "labels", "counts", "votes", "sigmas")
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    VOTES_FIELD_NUMBER: _ClassVar[int]
    SIGMAS_FIELD_NUMBER: _ClassVar[int]
    outcomes: bytes
    labels: bytes
    counts: bytes
    votes: bytes
    sigmas: bytes
    def __init__(self, outcomes: _Optional[bytes] = ..., labels: _Optional[bytes] = ..., counts: _Optional[bytes] = ..., votes: _Optional[bytes] = ..., sigmas: _Optional[bytes] = ...) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("error", "what", "action")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    error: str
    what: str
    action: str
    def __init__(self, error: _Optional[str] = ..., what: _Optional[str] = ..., action: _Optional[str] = ...) -> None: ...

class AskReply(_message.Message):
    __slots__ = ("progress", "answers", "refusal")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    progress: Progress
    answers: Answers
    refusal: Refusal
    def __init__(self, progress: _Optional[_Union[Progress, _Mapping]] = ..., answers: _Optional[_Union[Answers, _Mapping]] = ..., refusal: _Optional[_Union[Refusal, _Mapping]] = ...) -> None: ...

class KnownRequest(_message.Message):
    __slots__ = ("query_ids",)
    QUERY_IDS_FIELD_NUMBER: _ClassVar[int]
    query_ids: bytes
    def __init__(self, query_ids: _Optional[bytes] = ...) -> None: ...

class KnownReply(_message.Message):
    __slots__ = ("standings",)
    STANDINGS_FIELD_NUMBER: _ClassVar[int]
    standings: bytes
    def __init__(self, standings: _Optional[bytes] = ...) -> None: ...
