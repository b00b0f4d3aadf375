; Host code that tells all of PyTorch's tensors that decides a launch. `weft/torch_keys.py` compiles this file.
;
; DLPack's exchange table gives a tensor's memory without a Python call; only what it leaves out is asked for in
; Python's way.

%Torch = type {
  ptr, ; 0 DLTensorFromPyObjectNoSync of the exchange table
  ptr, ; 1 the class Tensor
  ptr, ; 2 the class Parameter
  ptr, ; 3 None
  ptr, ; 4 True
  ptr, ; 5 "requires_grad"
  ptr, ; 6 "is_neg"
  ptr, ; 7 "dtype"
  ptr, ; 8 the type int8
  ptr, ; 9 the type uint8
  ptr  ; 10 "storage_offset"
}
%DLTensor = type { ptr, i32, i32, i32, i8, i8, i16, ptr, ptr, i64 }
; data, device type, device, dimensions, type code, bits, lanes, shape, strides, byte offset

@most.dimensions = internal constant i64 7
; Tensors without memory (freed storage, zeros that were never made) begin at their offset. Most memory is above any
; offset. The heap of some Python programs and CUDA's memory pools are not: there, the offset itself is asked for.
@least.address = internal constant i64 1099511627776

declare void @PyErr_Clear()
declare ptr @PyBytes_FromStringAndSize(ptr, i64)
declare i64 @PyLong_AsLongLong(ptr)
declare i64 @PyLong_AsUnsignedLongLong(ptr)
declare ptr @PyLong_FromUnsignedLongLong(i64)
declare ptr @PyObject_GetAttr(ptr, ptr)
declare ptr @PyObject_Type(ptr)
declare ptr @PyObject_VectorcallMethod(ptr, ptr, i64, ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare void @Py_DecRef(ptr)
declare void @Py_IncRef(ptr)

; Python's describe(torch, a, b, out, *more) (METH_FASTCALL), where `torch` is the address of %Torch and what follows
; are tensors or None. Returns (key, *addresses), where `out` has an address of 0 for None, and others of None have
; none; or None for what isn't a plain tensor of at most seven dimensions with memory of its own.
define ptr @weft_describe(ptr %self, ptr %args, i64 %count) {
  %first = load ptr, ptr %args
  %number = call i64 @PyLong_AsUnsignedLongLong(ptr %first)
  %torch = inttoptr i64 %number to ptr
  %room = mul i64 %count, 16 ; words of an array at most
  %words = alloca i64, i64 %room
  %addresses = alloca i64, i64 %count
  br label %next

next:
  %i = phi i64 [ 1, %0 ], [ %i.following, %described ]
  %at = phi i64 [ 0, %0 ], [ %at.following, %described ]
  %told = phi i64 [ 0, %0 ], [ %told.following, %described ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %look, label %pack

look:
  %arg.at = getelementptr ptr, ptr %args, i64 %i
  %arg = load ptr, ptr %arg.at
  %none.at = getelementptr %Torch, ptr %torch, i64 0, i32 3
  %none = load ptr, ptr %none.at
  %word = getelementptr i64, ptr %words, i64 %at
  %address.at = getelementptr i64, ptr %addresses, i64 %told
  %absent = icmp eq ptr %arg, %none
  br i1 %absent, label %skip, label %describe

skip:
  store i64 0, ptr %word
  store i64 0, ptr %address.at
  %is.out = icmp eq i64 %i, 3
  %counted = zext i1 %is.out to i64
  br label %described

describe:
  %wrote = call i64 @one(ptr %torch, ptr %arg, ptr %word, ptr %address.at)
  %known = icmp sgt i64 %wrote, 0
  br i1 %known, label %described, label %unknown

described:
  %width = phi i64 [ 1, %skip ], [ %wrote, %describe ]
  %new = phi i64 [ %counted, %skip ], [ 1, %describe ]
  %at.following = add i64 %at, %width
  %told.following = add i64 %told, %new
  %i.following = add i64 %i, 1
  br label %next

unknown:
  call void @PyErr_Clear()
  %nothing.at = getelementptr %Torch, ptr %torch, i64 0, i32 3
  %nothing = load ptr, ptr %nothing.at
  call void @Py_IncRef(ptr %nothing)
  ret ptr %nothing

pack:
  %bytes = mul i64 %at, 8
  %key = call ptr @PyBytes_FromStringAndSize(ptr %words, i64 %bytes)
  %length = add i64 %told, 1
  %tuple = call ptr @PyTuple_New(i64 %length)
  %set = call i32 @PyTuple_SetItem(ptr %tuple, i64 0, ptr %key)
  br label %next.address

next.address:
  %j = phi i64 [ 0, %pack ], [ %j.following, %put ]
  %further = icmp slt i64 %j, %told
  br i1 %further, label %put, label %done

put:
  %value.at = getelementptr i64, ptr %addresses, i64 %j
  %value = load i64, ptr %value.at
  %object = call ptr @PyLong_FromUnsignedLongLong(i64 %value)
  %j.following = add i64 %j, 1
  %placed = call i32 @PyTuple_SetItem(ptr %tuple, i64 %j.following, ptr %object)
  br label %next.address

done:
  ret ptr %tuple
}

; Writes the words and the address of one tensor; returns the number of words, or 0 for what isn't described so.
define internal i64 @one(ptr %torch, ptr %object, ptr %words, ptr %address.at) {
  %tensor = alloca %DLTensor
  %call.args = alloca [2 x ptr]
  %kind = call ptr @PyObject_Type(ptr %object)
  call void @Py_DecRef(ptr %kind) ; the object keeps it
  %plain.at = getelementptr %Torch, ptr %torch, i64 0, i32 1
  %plain = load ptr, ptr %plain.at
  %parameter.at = getelementptr %Torch, ptr %torch, i64 0, i32 2
  %parameter = load ptr, ptr %parameter.at
  %is.plain = icmp eq ptr %kind, %plain
  %is.parameter = icmp eq ptr %kind, %parameter
  %is.tensor = or i1 %is.plain, %is.parameter
  br i1 %is.tensor, label %export, label %refuse

refuse:
  ret i64 0

export:
  %from = load ptr, ptr %torch
  %failed = call i32 %from(ptr %object, ptr %tensor)
  %exported = icmp eq i32 %failed, 0
  %rank.at = getelementptr %DLTensor, ptr %tensor, i64 0, i32 3
  %rank = load i32, ptr %rank.at
  %dimensions = zext i32 %rank to i64
  %most = load i64, ptr @most.dimensions
  %fits = icmp ule i64 %dimensions, %most
  %usable = and i1 %exported, %fits
  br i1 %usable, label %gradients, label %refuse

gradients:
  %requires.at = getelementptr %Torch, ptr %torch, i64 0, i32 5
  %requires = load ptr, ptr %requires.at
  %answer = call ptr @PyObject_GetAttr(ptr %object, ptr %requires)
  %asked = icmp ne ptr %answer, null
  br i1 %asked, label %told, label %refuse

told:
  call void @Py_DecRef(ptr %answer)
  %true.at = getelementptr %Torch, ptr %torch, i64 0, i32 4
  %true = load ptr, ptr %true.at
  %requires.grad = icmp eq ptr %answer, %true
  %code.at = getelementptr %DLTensor, ptr %tensor, i64 0, i32 4
  %code = load i8, ptr %code.at
  ; Only parts of complex numbers are negated lazily: bf16, fp8 and integers never are.
  %is.float = icmp eq i8 %code, 2
  br i1 %is.float, label %ask, label %whole

whole: ; PyTorch exports integers of 1 to 7 bits as if they had 8
  %bits.at = getelementptr %DLTensor, ptr %tensor, i64 0, i32 5
  %bits = load i8, ptr %bits.at
  %is.integer = icmp ult i8 %code, 2
  %is.byte = icmp eq i8 %bits, 8
  %is.small = and i1 %is.integer, %is.byte
  br i1 %is.small, label %which, label %write

which:
  %dtype.at = getelementptr %Torch, ptr %torch, i64 0, i32 7
  %dtype.name = load ptr, ptr %dtype.at
  %dtype = call ptr @PyObject_GetAttr(ptr %object, ptr %dtype.name)
  %has.dtype = icmp ne ptr %dtype, null
  br i1 %has.dtype, label %differ, label %refuse

differ:
  call void @Py_DecRef(ptr %dtype)
  %signed.at = getelementptr %Torch, ptr %torch, i64 0, i32 8
  %signed = load ptr, ptr %signed.at
  %unsigned.at = getelementptr %Torch, ptr %torch, i64 0, i32 9
  %unsigned = load ptr, ptr %unsigned.at
  %is.signed = icmp eq ptr %dtype, %signed
  %is.unsigned = icmp eq ptr %dtype, %unsigned
  %is.plain.byte = or i1 %is.signed, %is.unsigned
  br i1 %is.plain.byte, label %write, label %refuse

ask:
  store ptr %object, ptr %call.args
  %name.at = getelementptr %Torch, ptr %torch, i64 0, i32 6
  %name = load ptr, ptr %name.at
  %negated = call ptr @PyObject_VectorcallMethod(ptr %name, ptr %call.args, i64 1, ptr null)
  %answered = icmp ne ptr %negated, null
  br i1 %answered, label %compare, label %refuse

compare:
  call void @Py_DecRef(ptr %negated)
  %is.negated = icmp eq ptr %negated, %true
  br i1 %is.negated, label %refuse, label %write

write:
  %data = load i64, ptr %tensor
  %offset.at = getelementptr %DLTensor, ptr %tensor, i64 0, i32 9
  %offset = load i64, ptr %offset.at
  %address = add i64 %data, %offset
  %least = load i64, ptr @least.address
  %is.low = icmp ult i64 %address, %least
  br i1 %is.low, label %locate, label %put

locate:
  store ptr %object, ptr %call.args
  %elements.at = getelementptr %Torch, ptr %torch, i64 0, i32 10
  %elements.name = load ptr, ptr %elements.at
  %elements.object = call ptr @PyObject_VectorcallMethod(ptr %elements.name, ptr %call.args, i64 1, ptr null)
  %located = icmp ne ptr %elements.object, null
  br i1 %located, label %measure, label %refuse

measure:
  %elements = call i64 @PyLong_AsLongLong(ptr %elements.object)
  call void @Py_DecRef(ptr %elements.object)
  %size.bits.at = getelementptr %DLTensor, ptr %tensor, i64 0, i32 5
  %size.bits = load i8, ptr %size.bits.at
  %lanes.at = getelementptr %DLTensor, ptr %tensor, i64 0, i32 6
  %lanes = load i16, ptr %lanes.at
  %bits.wide = zext i8 %size.bits to i64
  %lanes.wide = zext i16 %lanes to i64
  %element.bits = mul i64 %bits.wide, %lanes.wide
  %element.bytes = udiv i64 %element.bits, 8
  %from.storage = mul i64 %elements, %element.bytes
  %is.memoryless = icmp eq i64 %address, %from.storage
  br i1 %is.memoryless, label %refuse, label %put

put:
  store i64 %address, ptr %address.at
  %type.bits = load i32, ptr %code.at ; code, bits and lanes
  %type = zext i32 %type.bits to i64
  %type.high = shl i64 %type, 32
  %rank.low = add i64 %dimensions, 1 ; 0 is None
  %first = or i64 %type.high, %rank.low
  store i64 %first, ptr %words
  %device.at = getelementptr %DLTensor, ptr %tensor, i64 0, i32 1
  %device = load i32, ptr %device.at
  %device.wide = zext i32 %device to i64
  %number.at = getelementptr %DLTensor, ptr %tensor, i64 0, i32 2
  %number = load i32, ptr %number.at
  %number.wide = zext i32 %number to i64
  %number.high = shl i64 %number.wide, 8
  %alignment = and i64 %address, 31
  %alignment.high = shl i64 %alignment, 48
  %grad.wide = zext i1 %requires.grad to i64
  %grad.high = shl i64 %grad.wide, 56
  %where = or i64 %device.wide, %number.high
  %lies = or i64 %alignment.high, %grad.high
  %second = or i64 %where, %lies
  %second.at = getelementptr i64, ptr %words, i64 1
  store i64 %second, ptr %second.at
  %shape.at = getelementptr %DLTensor, ptr %tensor, i64 0, i32 7
  %shape = load ptr, ptr %shape.at
  %strides.at = getelementptr %DLTensor, ptr %tensor, i64 0, i32 8
  %strides = load ptr, ptr %strides.at
  br label %next

next:
  %i = phi i64 [ 0, %put ], [ %following, %copy ]
  %more = icmp ult i64 %i, %dimensions
  br i1 %more, label %copy, label %done

copy:
  %size.from = getelementptr i64, ptr %shape, i64 %i
  %size = load i64, ptr %size.from
  %twice = mul i64 %i, 2
  %size.to = add i64 %twice, 2
  %size.at = getelementptr i64, ptr %words, i64 %size.to
  store i64 %size, ptr %size.at
  %stride.from = getelementptr i64, ptr %strides, i64 %i
  %stride = load i64, ptr %stride.from
  %stride.to = add i64 %twice, 3
  %stride.at = getelementptr i64, ptr %words, i64 %stride.to
  store i64 %stride, ptr %stride.at
  %following = add i64 %i, 1
  br label %next

done:
  %wide = mul i64 %dimensions, 2
  %count = add i64 %wide, 2
  ret i64 %count
}
