from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional

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
    __slots__ = ("origin", "data")
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    origin: bytes
    data: bytes
    def __init__(self, origin: _Optional[bytes] = ..., data: _Optional[bytes] = ...) -> None: ...
