from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Segment(_message.Message):
    __slots__ = ("head", "signature", "ops", "refs")
    HEAD_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    OPS_FIELD_NUMBER: _ClassVar[int]
    REFS_FIELD_NUMBER: _ClassVar[int]
    head: bytes
    signature: bytes
    ops: _containers.RepeatedScalarFieldContainer[bytes]
    refs: bytes
    def __init__(self, head: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., ops: _Optional[_Iterable[bytes]] = ..., refs: _Optional[bytes] = ...) -> None: ...

class Op(_message.Message):
    __slots__ = ("origin", "data", "update")
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    UPDATE_FIELD_NUMBER: _ClassVar[int]
    origin: bytes
    data: bytes
    update: Update
    def __init__(self, origin: _Optional[bytes] = ..., data: _Optional[bytes] = ..., update: _Optional[_Union[Update, _Mapping]] = ...) -> None: ...

class Update(_message.Message):
    __slots__ = ("entity", "parents", "change", "stamp", "digest")
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    PARENTS_FIELD_NUMBER: _ClassVar[int]
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    STAMP_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    entity: bytes
    parents: _containers.RepeatedScalarFieldContainer[bytes]
    change: bytes
    stamp: bytes
    digest: bytes
    def __init__(self, entity: _Optional[bytes] = ..., parents: _Optional[_Iterable[bytes]] = ..., change: _Optional[bytes] = ..., stamp: _Optional[bytes] = ..., digest: _Optional[bytes] = ...) -> None: ...
