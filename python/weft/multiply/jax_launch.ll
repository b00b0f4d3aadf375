; The handler that XLA calls to queue a launch (XLA's FFI, xla/ffi/api/c_api.h). `weft/jax_call.py` compiles this file.
;
; Its operands are A, B and what else the kernel reads; it has one result. Its attributes are integers, in the order
; of their names: `plan`, the %Plan of launcher.ll, and `settle`, a function that is asked what to do about a status.

%Frame = type {
  i64, ptr, ptr, ptr, i32,          ; size, extension, API, context, stage
  { i64, ptr, i64, ptr, ptr },      ; 5 arguments: size, extension, count, types, buffers
  { i64, ptr, i64, ptr, ptr },      ; 6 results
  { i64, ptr, i64, ptr, ptr, ptr }  ; 7 attributes: size, extension, count, types, names, scalars
}
%Extension = type { i64, i32, ptr, ptr }           ; size, kind, next, metadata
%Metadata = type { i64, i64, ptr, i32, i32, i32 }  ; size, then the version (size, extension, major, minor), traits
%Buffer = type { i64, ptr, i32, ptr }              ; size, extension, type, data
%Scalar = type { i32, ptr }                        ; type, value
%StreamArguments = type { i64, ptr, ptr, i64 }     ; size, extension, context, stream
%ErrorArguments = type { i64, ptr, ptr, i32 }      ; size, extension, message, code

@misaligned = internal constant [72 x i8] c"weft.matmul: expected arrays of JAX that begin at multiples of 16 bytes\00"

@failed = internal constant [66 x i8] c"weft.matmul: the launch failed, and so did the attempt to say why\00"

declare i32 @weft_launch(ptr, ptr, i64)

define ptr @weft_jax_launch(ptr %frame) {
  %extension.at = getelementptr %Frame, ptr %frame, i64 0, i32 1
  %extension = load ptr, ptr %extension.at
  %plain = icmp eq ptr %extension, null
  br i1 %plain, label %stage, label %kind

kind:
  %kind.at = getelementptr %Extension, ptr %extension, i64 0, i32 1
  %kind.of = load i32, ptr %kind.at
  %query = icmp eq i32 %kind.of, 1
  br i1 %query, label %metadata, label %stage

metadata: ; version 0.1 is what every release takes
  %metadata.at = getelementptr %Extension, ptr %extension, i64 0, i32 3
  %asked = load ptr, ptr %metadata.at
  %major = getelementptr %Metadata, ptr %asked, i64 0, i32 3
  store i32 0, ptr %major
  %minor = getelementptr %Metadata, ptr %asked, i64 0, i32 4
  store i32 1, ptr %minor
  %traits = getelementptr %Metadata, ptr %asked, i64 0, i32 5
  store i32 0, ptr %traits
  ret ptr null

stage:
  %stage.at = getelementptr %Frame, ptr %frame, i64 0, i32 4
  %now = load i32, ptr %stage.at
  %execute = icmp eq i32 %now, 3
  br i1 %execute, label %run, label %nothing

nothing:
  ret ptr null

run:
  %answer = call ptr @run(ptr %frame)
  ret ptr %answer
}

define internal ptr @run(ptr %frame) {
  %stream.args = alloca %StreamArguments
  %answer = alloca i64
  %inputs.at = getelementptr %Frame, ptr %frame, i64 0, i32 5, i32 2
  %inputs = load i64, ptr %inputs.at
  %buffers.at = getelementptr %Frame, ptr %frame, i64 0, i32 5, i32 4
  %buffers = load ptr, ptr %buffers.at
  %count = add i64 %inputs, 1
  %given = alloca i64, i64 %count
  br label %next

next: ; the result comes third
  %i = phi i64 [ 0, %0 ], [ %following, %take ]
  %all = phi i64 [ 0, %0 ], [ %all.following, %take ]
  %more = icmp slt i64 %i, %inputs
  br i1 %more, label %take, label %result

take:
  %buffer = call i64 @address(ptr %buffers, i64 %i)
  %moved = add i64 %i, 1
  %early = icmp slt i64 %i, 2
  %place = select i1 %early, i64 %i, i64 %moved
  %place.at = getelementptr i64, ptr %given, i64 %place
  store i64 %buffer, ptr %place.at
  %all.following = or i64 %all, %buffer
  %following = add i64 %i, 1
  br label %next

result:
  %results.at = getelementptr %Frame, ptr %frame, i64 0, i32 6, i32 4
  %results = load ptr, ptr %results.at
  %out = call i64 @address(ptr %results, i64 0)
  %out.at = getelementptr i64, ptr %given, i64 2
  store i64 %out, ptr %out.at
  %every = or i64 %all, %out
  %low = and i64 %every, 15
  %aligned = icmp eq i64 %low, 0
  br i1 %aligned, label %stream, label %crooked

crooked:
  %refusal = call ptr @error(ptr %frame, ptr @misaligned)
  ret ptr %refusal

stream:
  store i64 32, ptr %stream.args
  %none.at = getelementptr %StreamArguments, ptr %stream.args, i64 0, i32 1
  store ptr null, ptr %none.at
  %context.at = getelementptr %Frame, ptr %frame, i64 0, i32 3
  %context = load ptr, ptr %context.at
  %asked.at = getelementptr %StreamArguments, ptr %stream.args, i64 0, i32 2
  store ptr %context, ptr %asked.at
  %api.at = getelementptr %Frame, ptr %frame, i64 0, i32 2
  %api = load ptr, ptr %api.at
  %get.at = getelementptr i8, ptr %api, i64 80 ; XLA_FFI_Stream_Get
  %get = load ptr, ptr %get.at
  %failed = call ptr %get(ptr %stream.args)
  %known = icmp eq ptr %failed, null
  br i1 %known, label %launch, label %unknown

unknown:
  ret ptr %failed

launch:
  %stream.at = getelementptr %StreamArguments, ptr %stream.args, i64 0, i32 3
  %handle = load i64, ptr %stream.at
  %plan = call i64 @attribute(ptr %frame, i64 0)
  %plan.at = inttoptr i64 %plan to ptr
  %status = call i32 @weft_launch(ptr %plan.at, ptr %given, i64 %handle)
  %well = icmp eq i32 %status, 0
  br i1 %well, label %queued, label %settle

queued:
  ret ptr null

settle: ; writes where a message is, or 1 to try again; nothing where it raises an exception
  %settle.number = call i64 @attribute(ptr %frame, i64 1)
  %function = inttoptr i64 %settle.number to ptr
  store i64 0, ptr %answer
  call void %function(i64 %plan, i64 %handle, i32 %status, ptr %answer)
  %told = load i64, ptr %answer
  %again = icmp eq i64 %told, 1
  br i1 %again, label %launch, label %refuse

refuse:
  %message = inttoptr i64 %told to ptr
  %unknown.why = icmp eq ptr %message, null
  %text = select i1 %unknown.why, ptr @failed, ptr %message
  %made = call ptr @error(ptr %frame, ptr %text)
  ret ptr %made
}

; Where the memory of a buffer begins.
define internal i64 @address(ptr %buffers, i64 %number) {
  %buffer.at = getelementptr ptr, ptr %buffers, i64 %number
  %buffer = load ptr, ptr %buffer.at
  %data.at = getelementptr %Buffer, ptr %buffer, i64 0, i32 3
  %data = load i64, ptr %data.at
  ret i64 %data
}

define internal i64 @attribute(ptr %frame, i64 %number) {
  %scalars.at = getelementptr %Frame, ptr %frame, i64 0, i32 7, i32 5
  %scalars = load ptr, ptr %scalars.at
  %scalar.at = getelementptr ptr, ptr %scalars, i64 %number
  %scalar = load ptr, ptr %scalar.at
  %value.at = getelementptr %Scalar, ptr %scalar, i64 0, i32 1
  %where = load ptr, ptr %value.at
  %value = load i64, ptr %where
  ret i64 %value
}

define internal ptr @error(ptr %frame, ptr %message) {
  %arguments = alloca %ErrorArguments
  store i64 32, ptr %arguments
  %none.at = getelementptr %ErrorArguments, ptr %arguments, i64 0, i32 1
  store ptr null, ptr %none.at
  %text.at = getelementptr %ErrorArguments, ptr %arguments, i64 0, i32 2
  store ptr %message, ptr %text.at
  %code.at = getelementptr %ErrorArguments, ptr %arguments, i64 0, i32 3
  store i32 13, ptr %code.at ; XLA_FFI_Error_Code_INTERNAL
  %api.at = getelementptr %Frame, ptr %frame, i64 0, i32 2
  %api = load ptr, ptr %api.at
  %create.at = getelementptr i8, ptr %api, i64 48 ; XLA_FFI_Error_Create
  %create = load ptr, ptr %create.at
  %made = call ptr %create(ptr %arguments)
  ret ptr %made
}
