; The handlers that XLA calls for a product (XLA's FFI, xla/ffi/api/c_api.h). `xla_target.py` compiles this file.
;
; The operands of a product are A, B and what else the kernel reads; there is one result. The attributes, in the order
; of their names, are `key`, an integer that stands for a product, and `product`, the text that describes it. On a GPU
; the launch of a product is in a table, by key and GPU. Python is asked only where the table has none.
;
; Launches of other kernels have a third attribute, `results`, and any number of results, whose addresses follow those
; of all operands. So have products over several GPUs, for which the table has sequences (sequence.ll).

%Frame = type {
  i64, ptr, ptr, ptr, i32,          ; size, extension, API, context, stage
  { i64, ptr, i64, ptr, ptr },      ; 5 arguments: size, extension, count, types, buffers
  { i64, ptr, i64, ptr, ptr },      ; 6 results
  { i64, ptr, i64, ptr, ptr, ptr }  ; 7 attributes: size, extension, count, types, names, values
}
%Extension = type { i64, i32, ptr, ptr }           ; size, kind, next, metadata
%Metadata = type { i64, i64, ptr, i32, i32, i32 }  ; size, then the version (size, extension, major, minor), traits
%Buffer = type { i64, ptr, i32, ptr }              ; size, extension, type, data
%Scalar = type { i32, ptr }                        ; type, value
%Bytes = type { ptr, i64 }                         ; text, length
%Arguments = type { i64, ptr, ptr, i64 }           ; size, extension, context, and what is returned
%ErrorArguments = type { i64, ptr, ptr, i32 }      ; size, extension, message, code

; `_Request` of xla_target.py: what is asked, key, GPU, text, its length, stream, addresses, how many, status, reply
%Request = type { i64, i64, i64, ptr, i64, i64, ptr, i64, i64, i64 }
%Table = type { i64, ptr }                         ; entries - 1, a power of two less one; %Entry
%Entry = type { i64, i64, i64, ptr, i64 }          ; key, GPU, result or 0, plan or null, whether it has workspaces

@misaligned = internal constant [77 x i8] c"weft.jax.matmul: expected buffers of XLA that begin at multiples of 16 bytes\00"

@failed = internal constant [71 x i8] c"weft.jax.matmul: the product failed, and so did the attempt to say why\00"

@table = internal global ptr null
@python = internal global ptr null
@running = internal global i64 0

@ending = internal constant [34 x i8] c"weft.jax.matmul: the process ends\00"

declare i32 @weft_launch(ptr, ptr, i64)
declare i32 @weft_sequence(ptr, ptr, i64)

; Sets where the pointer to the %Table is, and the function that is asked; null if Python ends.
define void @weft_xla_connect(ptr %table, ptr %python) {
  store ptr %table, ptr @table
  store atomic ptr %python, ptr @python seq_cst, align 8
  ret void
}

; How many threads are asking Python.
define i64 @weft_xla_running() {
  %count = load atomic i64, ptr @running seq_cst, align 8
  ret i64 %count
}

; On a GPU. XLA may capture what it queues.
define ptr @weft_xla_gpu(ptr %frame) {
  %answer = call ptr @handle(ptr %frame, i32 1, i1 true, ptr @weft_launch)
  ret ptr %answer
}

; For products over several GPUs. XLA mustn't capture what it queues: a graph's nodes may run in any order, but all GPUs
; must run these in the same one.
define ptr @weft_xla_team(ptr %frame) {
  %answer = call ptr @handle(ptr %frame, i32 0, i1 true, ptr @weft_sequence)
  ret ptr %answer
}

; On the CPU, by Python.
define ptr @weft_xla_cpu(ptr %frame) {
  %answer = call ptr @handle(ptr %frame, i32 0, i1 false, ptr null)
  ret ptr %answer
}

define internal ptr @handle(ptr %frame, i32 %features, i1 %gpu, ptr %queue) {
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
  store i32 %features, ptr %traits
  ret ptr null

stage: ; 2 initializes, 3 executes
  %stage.at = getelementptr %Frame, ptr %frame, i64 0, i32 4
  %now = load i32, ptr %stage.at
  %initialize = icmp eq i32 %now, 2
  %execute = icmp eq i32 %now, 3
  %either = or i1 %initialize, %execute
  br i1 %either, label %run, label %nothing

nothing:
  ret ptr null

run:
  %request = alloca %Request
  %scalar = call ptr @attribute(ptr %frame, i64 0)
  %scalar.at = getelementptr %Scalar, ptr %scalar, i64 0, i32 1
  %key.at = load ptr, ptr %scalar.at
  %key = load i64, ptr %key.at
  %text = call ptr @attribute(ptr %frame, i64 1)
  %bytes = load ptr, ptr %text
  %length.at = getelementptr %Bytes, ptr %text, i64 0, i32 1
  %length = load i64, ptr %length.at
  call void @set(ptr %request, i64 1, i64 %key)
  call void @set(ptr %request, i64 2, i64 -1)
  %bytes.at = getelementptr %Request, ptr %request, i64 0, i32 3
  store ptr %bytes, ptr %bytes.at
  call void @set(ptr %request, i64 4, i64 %length)
  br i1 %gpu, label %find, label %emulate

find:
  %unknown = call ptr @number(ptr %frame, i64 184, ptr %request, i64 2, i64 4294967295) ; DeviceOrdinal_Get
  %known = icmp eq ptr %unknown, null
  br i1 %known, label %look, label %refused

refused:
  ret ptr %unknown

look:
  %entry = call ptr @lookup(ptr %request, i64 0)
  %missing = icmp eq ptr %entry, null
  br i1 %missing, label %prepare, label %found

prepare:
  %prepared = call ptr @ask(ptr %frame, ptr %request, i64 0)
  %well = icmp eq ptr %prepared, null
  br i1 %well, label %look, label %unprepared

unprepared:
  ret ptr %prepared

found:
  br i1 %execute, label %launch, label %nothing

launch:
  %launched = call ptr @launch(ptr %frame, ptr %request, ptr %entry, ptr %queue)
  ret ptr %launched

emulate:
  br i1 %execute, label %here, label %nothing

here:
  %count = call i64 @buffers(ptr %frame)
  %given = alloca i64, i64 %count
  %low = call i64 @gather(ptr %frame, ptr %given)
  %given.at = getelementptr %Request, ptr %request, i64 0, i32 6
  store ptr %given, ptr %given.at
  call void @set(ptr %request, i64 7, i64 %count)
  %emulated = call ptr @ask(ptr %frame, ptr %request, i64 3)
  ret ptr %emulated
}

; Queues the launch of an entry on XLA's stream, by a function. Returns an error, or null.
define internal ptr @launch(ptr %frame, ptr %request, ptr %entry, ptr %by) {
  %capturing = alloca i32
  %graph = alloca i64
  %count = call i64 @buffers(ptr %frame)
  %given = alloca i64, i64 %count
  %low = call i64 @gather(ptr %frame, ptr %given)
  %aligned = icmp eq i64 %low, 0
  br i1 %aligned, label %stream, label %crooked

crooked:
  %refusal = call ptr @error(ptr %frame, ptr @misaligned)
  ret ptr %refusal

stream:
  %given.at = getelementptr %Request, ptr %request, i64 0, i32 6
  store ptr %given, ptr %given.at
  call void @set(ptr %request, i64 7, i64 %count)
  %unknown = call ptr @number(ptr %frame, i64 80, ptr %request, i64 5, i64 -1) ; Stream_Get
  %known = icmp eq ptr %unknown, null
  br i1 %known, label %spaces, label %refused

refused:
  ret ptr %unknown

spaces:
  %handle.at = getelementptr %Request, ptr %request, i64 0, i32 5
  %handle = load i64, ptr %handle.at
  %spaced.at = getelementptr %Entry, ptr %entry, i64 0, i32 4
  %spaced = load i64, ptr %spaced.at
  %plain = icmp eq i64 %spaced, 0
  br i1 %plain, label %queue, label %captured

captured: ; nodes of a graph may run beside each other: those with one result share a workspace
  store i64 0, ptr %graph
  %plan.at = getelementptr %Entry, ptr %entry, i64 0, i32 3
  %shared = load ptr, ptr %plan.at
  %driver = load ptr, ptr %shared
  %info.at = getelementptr ptr, ptr %driver, i64 3
  %info = load ptr, ptr %info.at
  %told = call i32 %info(i64 %handle, ptr %capturing, ptr %graph, ptr null, ptr null, ptr null)
  %is.told = icmp eq i32 %told, 0
  %state = load i32, ptr %capturing
  %active = icmp eq i32 %state, 1
  %in.graph = and i1 %is.told, %active
  br i1 %in.graph, label %look, label %queue

look:
  %result.at = getelementptr i64, ptr %given, i64 2
  %result = load i64, ptr %result.at
  %own = call ptr @lookup(ptr %request, i64 %result)
  %missing = icmp eq ptr %own, null
  br i1 %missing, label %prepare, label %queue

prepare:
  %prepared = call ptr @ask(ptr %frame, ptr %request, i64 1)
  %well = icmp eq ptr %prepared, null
  br i1 %well, label %look, label %failed

queue:
  %used = phi ptr [ %entry, %spaces ], [ %entry, %captured ], [ %own, %look ], [ %used, %settle ]
  %used.at = getelementptr %Entry, ptr %used, i64 0, i32 3
  %plan = load ptr, ptr %used.at
  %status = call i32 %by(ptr %plan, ptr %given, i64 %handle)
  %queued = icmp eq i32 %status, 0
  br i1 %queued, label %done, label %settle

done:
  ret ptr null

settle:
  %wide = sext i32 %status to i64
  call void @set(ptr %request, i64 8, i64 %wide)
  %settled = call ptr @ask(ptr %frame, ptr %request, i64 2)
  %again = icmp eq ptr %settled, null
  br i1 %again, label %queue, label %failed

failed:
  %why = phi ptr [ %prepared, %prepare ], [ %settled, %settle ]
  ret ptr %why
}

; How many operands and results there are.
define internal i64 @buffers(ptr %frame) {
  %inputs.at = getelementptr %Frame, ptr %frame, i64 0, i32 5, i32 2
  %inputs = load i64, ptr %inputs.at
  %outputs.at = getelementptr %Frame, ptr %frame, i64 0, i32 6, i32 2
  %outputs = load i64, ptr %outputs.at
  %count = add i64 %inputs, %outputs
  ret i64 %count
}

; Writes the addresses of the buffers: of a product the result's third, of another kernel those of results last. Returns
; their low bits, which are 0 if all are aligned.
define internal i64 @gather(ptr %frame, ptr %given) {
  %attributes.at = getelementptr %Frame, ptr %frame, i64 0, i32 7, i32 2
  %attributes = load i64, ptr %attributes.at
  %product = icmp eq i64 %attributes, 2
  %inputs.at = getelementptr %Frame, ptr %frame, i64 0, i32 5, i32 2
  %inputs = load i64, ptr %inputs.at
  %buffers.at = getelementptr %Frame, ptr %frame, i64 0, i32 5, i32 4
  %buffers = load ptr, ptr %buffers.at
  %outputs.at = getelementptr %Frame, ptr %frame, i64 0, i32 6, i32 2
  %outputs = load i64, ptr %outputs.at
  %results.at = getelementptr %Frame, ptr %frame, i64 0, i32 6, i32 4
  %results = load ptr, ptr %results.at
  %before = select i1 %product, i64 2, i64 %inputs  ; operands before the results
  br label %next

next:
  %i = phi i64 [ 0, %0 ], [ %following, %take ]
  %all = phi i64 [ 0, %0 ], [ %all.following, %take ]
  %more = icmp slt i64 %i, %inputs
  br i1 %more, label %take, label %result

take:
  %buffer = call i64 @address(ptr %buffers, i64 %i)
  %moved = add i64 %i, %outputs
  %early = icmp slt i64 %i, %before
  %place = select i1 %early, i64 %i, i64 %moved
  %place.at = getelementptr i64, ptr %given, i64 %place
  store i64 %buffer, ptr %place.at
  %all.following = or i64 %all, %buffer
  %following = add i64 %i, 1
  br label %next

result:
  %r = phi i64 [ 0, %next ], [ %r.following, %write ]
  %every = phi i64 [ %all, %next ], [ %every.following, %write ]
  %left = icmp slt i64 %r, %outputs
  br i1 %left, label %write, label %done

write:
  %out = call i64 @address(ptr %results, i64 %r)
  %out.place = add i64 %r, %before
  %out.at = getelementptr i64, ptr %given, i64 %out.place
  store i64 %out, ptr %out.at
  %every.following = or i64 %every, %out
  %r.following = add i64 %r, 1
  br label %result

done:
  %low = and i64 %every, 15
  ret i64 %low
}

; Where the memory of a buffer begins.
define internal i64 @address(ptr %buffers, i64 %number) {
  %buffer.at = getelementptr ptr, ptr %buffers, i64 %number
  %buffer = load ptr, ptr %buffer.at
  %data.at = getelementptr %Buffer, ptr %buffer, i64 0, i32 3
  %data = load i64, ptr %data.at
  ret i64 %data
}

define internal ptr @attribute(ptr %frame, i64 %number) {
  %values.at = getelementptr %Frame, ptr %frame, i64 0, i32 7, i32 5
  %values = load ptr, ptr %values.at
  %value.at = getelementptr ptr, ptr %values, i64 %number
  %value = load ptr, ptr %value.at
  ret ptr %value
}

define internal void @set(ptr %request, i64 %field, i64 %value) {
  %at = getelementptr i64, ptr %request, i64 %field
  store i64 %value, ptr %at
  ret void
}

; Asks a function of XLA's API for a number, of which the bits of a mask count, for a field of the request. Returns an
; error, or null.
define internal ptr @number(ptr %frame, i64 %function, ptr %request, i64 %field, i64 %mask) {
  %arguments = alloca %Arguments
  store i64 32, ptr %arguments
  %none.at = getelementptr %Arguments, ptr %arguments, i64 0, i32 1
  store ptr null, ptr %none.at
  %context.at = getelementptr %Frame, ptr %frame, i64 0, i32 3
  %context = load ptr, ptr %context.at
  %asked.at = getelementptr %Arguments, ptr %arguments, i64 0, i32 2
  store ptr %context, ptr %asked.at
  %api.at = getelementptr %Frame, ptr %frame, i64 0, i32 2
  %api = load ptr, ptr %api.at
  %get.at = getelementptr i8, ptr %api, i64 %function
  %get = load ptr, ptr %get.at
  %failed = call ptr %get(ptr %arguments)
  %value.at = getelementptr %Arguments, ptr %arguments, i64 0, i32 3
  %value = load i64, ptr %value.at
  %masked = and i64 %value, %mask
  call void @set(ptr %request, i64 %field, i64 %masked)
  ret ptr %failed
}

; The entry of the table for a request and a result, or null. `_Table` of xla_target.py searches alike.
define internal ptr @lookup(ptr %request, i64 %result) {
  %key.at = getelementptr %Request, ptr %request, i64 0, i32 1
  %key = load i64, ptr %key.at
  %gpu.at = getelementptr %Request, ptr %request, i64 0, i32 2
  %gpu = load i64, ptr %gpu.at
  %held = load ptr, ptr @table
  %table = load atomic ptr, ptr %held acquire, align 8
  %mask = load i64, ptr %table
  %entries.at = getelementptr %Table, ptr %table, i64 0, i32 1
  %entries = load ptr, ptr %entries.at
  %high = lshr i64 %result, 8
  %sum = add i64 %key, %gpu
  %start = add i64 %sum, %high
  br label %next

next:
  %at = phi i64 [ %start, %0 ], [ %following, %differs ]
  %slot = and i64 %at, %mask
  %entry = getelementptr %Entry, ptr %entries, i64 %slot
  %plan.at = getelementptr %Entry, ptr %entry, i64 0, i32 3
  %plan = load atomic ptr, ptr %plan.at acquire, align 8
  %empty = icmp eq ptr %plan, null
  br i1 %empty, label %none, label %compare

none:
  ret ptr null

compare:
  %entry.key = load i64, ptr %entry
  %entry.gpu.at = getelementptr %Entry, ptr %entry, i64 0, i32 1
  %entry.gpu = load i64, ptr %entry.gpu.at
  %entry.result.at = getelementptr %Entry, ptr %entry, i64 0, i32 2
  %entry.result = load i64, ptr %entry.result.at
  %same.key = icmp eq i64 %entry.key, %key
  %same.gpu = icmp eq i64 %entry.gpu, %gpu
  %same.result = icmp eq i64 %entry.result, %result
  %same.product = and i1 %same.key, %same.gpu
  %same = and i1 %same.product, %same.result
  br i1 %same, label %hit, label %differs

differs:
  %following = add i64 %slot, 1
  br label %next

hit:
  ret ptr %entry
}

; Has Python do something. Its reply is 1, or the address of a message; nothing where it raises an exception. Returns
; an error, or null.
define internal ptr @ask(ptr %frame, ptr %request, i64 %what) {
  call void @set(ptr %request, i64 0, i64 %what)
  call void @set(ptr %request, i64 9, i64 0)
  %before = atomicrmw add ptr @running, i64 1 seq_cst
  %function = load atomic ptr, ptr @python seq_cst, align 8
  %ended = icmp eq ptr %function, null
  br i1 %ended, label %late, label %call

late:
  %others = atomicrmw sub ptr @running, i64 1 seq_cst
  %refusal = call ptr @error(ptr %frame, ptr @ending)
  ret ptr %refusal

call:
  call void %function(ptr %request)
  %after = atomicrmw sub ptr @running, i64 1 seq_cst
  %reply.at = getelementptr %Request, ptr %request, i64 0, i32 9
  %reply = load i64, ptr %reply.at
  %done = icmp eq i64 %reply, 1
  br i1 %done, label %well, label %refuse

well:
  ret ptr null

refuse:
  %message = inttoptr i64 %reply to ptr
  %unknown = icmp eq ptr %message, null
  %text = select i1 %unknown, ptr @failed, ptr %message
  %made = call ptr @error(ptr %frame, ptr %text)
  ret ptr %made
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
