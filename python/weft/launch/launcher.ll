; Host code that queues a prepared launch. `launcher.py` fills the structures and compiles this file.
;
; Launches of one plan differ only in addresses, stream and workspace. So the parameters are kept as one block,
; which each launch copies to its stack and patches: threads share no mutable state.

%Driver = type {
  ptr, ; cuCtxGetCurrent
  ptr, ; cuCtxPushCurrent
  ptr, ; cuCtxPopCurrent
  ptr, ; cuStreamGetCaptureInfo
  ptr, ; cuStreamGetId
  ptr  ; cuLaunchKernelEx
}
%Plan = type {
  ptr, ;  0 %Driver
  i64, ;  1 context
  i64, ;  2 function
  ptr, ;  3 CUlaunchConfig, whose stream is replaced
  ptr, ;  4 parameters, one after another
  i64, ;  5 their bytes
  ptr, ;  6 where each parameter begins
  i64, ;  7 how many there are
  ptr, ;  8 %Patch
  i64, ;  9 how many there are
  i64, ; 10 how many addresses the caller gives
  i64, ; 11 how many workspaces each stream has
  ptr, ; 12 where a pointer to %Spaces is
  ptr, ; 13 %Extent of each address that the caller gives
  i64  ; 14 the number of the one that is written
}
%Extent = type { i64, i64 }        ; the bytes of an array, and 1 where it may be the one that is written
%Patch = type { i64, i64, i64 }    ; a byte of the block, and the number of the address that is put there, plus a distance
%Spaces = type { i64, ptr }        ; a count of entries: stream, captured graph or 0, and an address for each workspace
%Config = type { [8 x i32], i64, ptr, i64 } ; CUlaunchConfig: the stream is its field 1

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i64 @PyLong_AsUnsignedLongLong(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyErr_Occurred()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)

; Python's queue(plan, stream, *addresses), all of them int (METH_FASTCALL). Returns the driver's status, -1 if the
; stream has no workspace yet, -2 for a wrong number of addresses.
define ptr @weft_queue(ptr %self, ptr %args, i64 %count) {
  %answer = call ptr @from_python(ptr %args, i64 %count, i1 false)
  ret ptr %answer
}

; As above, but returns -3 if the written array may overlap one that is read.
define ptr @weft_queue_apart(ptr %self, ptr %args, i64 %count) {
  %answer = call ptr @from_python(ptr %args, i64 %count, i1 true)
  ret ptr %answer
}

define internal ptr @from_python(ptr %args, i64 %count, i1 %apart) {
  %values = alloca i64, i64 %count
  br label %next

next:
  %i = phi i64 [ 0, %0 ], [ %following, %convert ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %convert, label %converted

convert:
  %arg.at = getelementptr ptr, ptr %args, i64 %i
  %arg = load ptr, ptr %arg.at
  %value = call i64 @PyLong_AsUnsignedLongLong(ptr %arg)
  %value.at = getelementptr i64, ptr %values, i64 %i
  store i64 %value, ptr %value.at
  %following = add i64 %i, 1
  br label %next

converted:
  %error = call ptr @PyErr_Occurred()
  %failed = icmp ne ptr %error, null
  br i1 %failed, label %raise, label %check

raise:
  ret ptr null

check:
  %plan = load ptr, ptr %values
  %stream.at = getelementptr i64, ptr %values, i64 1
  %stream = load i64, ptr %stream.at
  %given = getelementptr i64, ptr %values, i64 2
  %wanted.at = getelementptr %Plan, ptr %plan, i64 0, i32 10
  %wanted = load i64, ptr %wanted.at
  %found = sub i64 %count, 2
  %right = icmp eq i64 %found, %wanted
  br i1 %right, label %counted, label %complain

counted:
  br i1 %apart, label %compare, label %go

compare:
  %overlap = call i1 @overlaps(ptr %plan, ptr %given)
  br i1 %overlap, label %complain, label %go

complain:
  %what = phi i64 [ -2, %check ], [ -3, %compare ]
  %complaint = call ptr @PyLong_FromLongLong(i64 %what)
  ret ptr %complaint

go:
  %thread = call ptr @PyEval_SaveThread()
  %status = call i32 @weft_launch(ptr %plan, ptr %given, i64 %stream)
  call void @PyEval_RestoreThread(ptr %thread)
  %wide = sext i32 %status to i64
  %answer = call ptr @PyLong_FromLongLong(i64 %wide)
  ret ptr %answer
}

; Whether the written array and another may overlap, by their first and last bytes.
define internal i1 @overlaps(ptr %plan, ptr %given) {
  %written.at = getelementptr %Plan, ptr %plan, i64 0, i32 14
  %written = load i64, ptr %written.at
  %count.at = getelementptr %Plan, ptr %plan, i64 0, i32 10
  %count = load i64, ptr %count.at
  %extents.at = getelementptr %Plan, ptr %plan, i64 0, i32 13
  %extents = load ptr, ptr %extents.at
  %start.at = getelementptr i64, ptr %given, i64 %written
  %start = load i64, ptr %start.at
  %bytes.at = getelementptr %Extent, ptr %extents, i64 %written, i32 0
  %bytes = load i64, ptr %bytes.at
  %end = add i64 %start, %bytes
  br label %next

next:
  %i = phi i64 [ 0, %0 ], [ %following, %compare ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %compare, label %apart

apart:
  ret i1 false

compare:
  %first.at = getelementptr i64, ptr %given, i64 %i
  %first = load i64, ptr %first.at
  %length.at = getelementptr %Extent, ptr %extents, i64 %i, i32 0
  %length = load i64, ptr %length.at
  %last = add i64 %first, %length
  %same.at = getelementptr %Extent, ptr %extents, i64 %i, i32 1
  %may.be = load i64, ptr %same.at
  %before = icmp ult i64 %first, %end
  %behind = icmp ult i64 %start, %last
  %common = and i1 %before, %behind
  %alike = icmp eq i64 %may.be, 1
  %at.start = icmp eq i64 %first, %start
  %is.it = and i1 %alike, %at.start
  %different = xor i1 %is.it, true
  %bad = and i1 %common, %different
  %following = add i64 %i, 1
  br i1 %bad, label %shared, label %next

shared:
  ret i1 true
}

; Queues the launch on a stream, in the plan's context.
define i32 @weft_launch(ptr %plan, ptr %given, i64 %stream) {
  %current = alloca i64
  %driver = load ptr, ptr %plan
  %context.at = getelementptr %Plan, ptr %plan, i64 0, i32 1
  %context = load i64, ptr %context.at
  %get = load ptr, ptr %driver
  %asked = call i32 %get(ptr %current)
  %known = icmp eq i32 %asked, 0
  br i1 %known, label %compare, label %unknown

unknown:
  ret i32 %asked

compare:
  %now = load i64, ptr %current
  %same = icmp eq i64 %now, %context
  br i1 %same, label %direct, label %enter

direct:
  %status = call i32 @queue(ptr %plan, ptr %given, i64 %stream)
  ret i32 %status

enter:
  %push.at = getelementptr %Driver, ptr %driver, i64 0, i32 1
  %push = load ptr, ptr %push.at
  %pushed = call i32 %push(i64 %context)
  %entered = icmp eq i32 %pushed, 0
  br i1 %entered, label %inside, label %refused

refused:
  ret i32 %pushed

inside:
  %result = call i32 @queue(ptr %plan, ptr %given, i64 %stream)
  %pop.at = getelementptr %Driver, ptr %driver, i64 0, i32 2
  %pop = load ptr, ptr %pop.at
  %popped = call i32 %pop(ptr %current)
  ret i32 %result
}

define internal i32 @queue(ptr %plan, ptr %given, i64 %stream) {
  %config = alloca %Config
  %spaces.at = alloca ptr
  store ptr null, ptr %spaces.at
  %spaced.at = getelementptr %Plan, ptr %plan, i64 0, i32 11
  %spaced = load i64, ptr %spaced.at
  %plain = icmp eq i64 %spaced, 0
  br i1 %plain, label %copy, label %look

look:
  %looked = call i32 @find(ptr %plan, i64 %stream, ptr %spaces.at)
  %found = icmp eq i32 %looked, 0
  br i1 %found, label %copy, label %missing

missing:
  ret i32 %looked

copy:
  %spaces = load ptr, ptr %spaces.at
  %bytes.at = getelementptr %Plan, ptr %plan, i64 0, i32 5
  %bytes = load i64, ptr %bytes.at
  %template.at = getelementptr %Plan, ptr %plan, i64 0, i32 4
  %template = load ptr, ptr %template.at
  %block = alloca i8, i64 %bytes, align 64 ; as tensor maps must lie
  call void @llvm.memcpy.p0.p0.i64(ptr %block, ptr %template, i64 %bytes, i1 false)
  %patches.at = getelementptr %Plan, ptr %plan, i64 0, i32 8
  %patches = load ptr, ptr %patches.at
  %patched.at = getelementptr %Plan, ptr %plan, i64 0, i32 9
  %patched = load i64, ptr %patched.at
  %ours.at = getelementptr %Plan, ptr %plan, i64 0, i32 10
  %ours = load i64, ptr %ours.at
  br label %next.patch

next.patch:
  %i = phi i64 [ 0, %copy ], [ %i.following, %patch ]
  %more = icmp slt i64 %i, %patched
  br i1 %more, label %patch, label %place

patch:
  %byte.at = getelementptr %Patch, ptr %patches, i64 %i, i32 0
  %byte = load i64, ptr %byte.at
  %number.at = getelementptr %Patch, ptr %patches, i64 %i, i32 1
  %number = load i64, ptr %number.at
  %is.given = icmp slt i64 %number, %ours
  %of.space = sub i64 %number, %ours
  %from = select i1 %is.given, ptr %given, ptr %spaces
  %at = select i1 %is.given, i64 %number, i64 %of.space
  %address.at = getelementptr i64, ptr %from, i64 %at
  %address = load i64, ptr %address.at
  %distance.at = getelementptr %Patch, ptr %patches, i64 %i, i32 2
  %distance = load i64, ptr %distance.at
  %moved = add i64 %address, %distance
  %target = getelementptr i8, ptr %block, i64 %byte
  store i64 %moved, ptr %target
  %i.following = add i64 %i, 1
  br label %next.patch

place:
  %offsets.at = getelementptr %Plan, ptr %plan, i64 0, i32 6
  %offsets = load ptr, ptr %offsets.at
  %count.at = getelementptr %Plan, ptr %plan, i64 0, i32 7
  %count = load i64, ptr %count.at
  %parameters = alloca ptr, i64 %count
  br label %next.parameter

next.parameter:
  %j = phi i64 [ 0, %place ], [ %j.following, %point ]
  %further = icmp slt i64 %j, %count
  br i1 %further, label %point, label %launch

point:
  %offset.at = getelementptr i64, ptr %offsets, i64 %j
  %offset = load i64, ptr %offset.at
  %parameter = getelementptr i8, ptr %block, i64 %offset
  %slot = getelementptr ptr, ptr %parameters, i64 %j
  store ptr %parameter, ptr %slot
  %j.following = add i64 %j, 1
  br label %next.parameter

launch:
  %kept.at = getelementptr %Plan, ptr %plan, i64 0, i32 3
  %kept = load ptr, ptr %kept.at
  call void @llvm.memcpy.p0.p0.i64(ptr %config, ptr %kept, i64 56, i1 false)
  %stream.at = getelementptr %Config, ptr %config, i64 0, i32 1
  store i64 %stream, ptr %stream.at
  %function.at = getelementptr %Plan, ptr %plan, i64 0, i32 2
  %function = load i64, ptr %function.at
  %driver = load ptr, ptr %plan
  %launch.at = getelementptr %Driver, ptr %driver, i64 0, i32 5
  %call = load ptr, ptr %launch.at
  %status = call i32 %call(ptr %config, i64 %function, ptr %parameters, ptr null)
  ret i32 %status
}

; The workspaces of a stream, or of it in the graph that captures it; -1 if it has none.
define internal i32 @find(ptr %plan, i64 %stream, ptr %result) {
  %capturing = alloca i32
  %graph.at = alloca i64
  %id.at = alloca i64
  store i64 0, ptr %graph.at
  store i64 0, ptr %id.at
  %driver = load ptr, ptr %plan
  %capture.at = getelementptr %Driver, ptr %driver, i64 0, i32 3
  %capture = load ptr, ptr %capture.at
  %asked = call i32 %capture(i64 %stream, ptr %capturing, ptr %graph.at, ptr null, ptr null, ptr null)
  %answered = icmp eq i32 %asked, 0
  br i1 %answered, label %which, label %failed

failed:
  ret i32 %asked

which:
  %state = load i32, ptr %capturing
  %active = icmp eq i32 %state, 1
  br i1 %active, label %in.graph, label %by.stream

in.graph: ; a captured stream doesn't tell its own number, but has a handle of its own
  store i64 %stream, ptr %id.at
  br label %search

by.stream:
  store i64 0, ptr %graph.at
  %identify.at = getelementptr %Driver, ptr %driver, i64 0, i32 4
  %identify = load ptr, ptr %identify.at
  %told = call i32 %identify(i64 %stream, ptr %id.at)
  %identified = icmp eq i32 %told, 0
  br i1 %identified, label %search, label %unidentified

unidentified:
  ret i32 %told

search:
  %id = load i64, ptr %id.at
  %graph = load i64, ptr %graph.at
  %held.at = getelementptr %Plan, ptr %plan, i64 0, i32 12
  %held = load ptr, ptr %held.at
  %spaces = load atomic ptr, ptr %held acquire, align 8
  %count = load atomic i64, ptr %spaces acquire, align 8
  %entries.at = getelementptr %Spaces, ptr %spaces, i64 0, i32 1
  %entries = load ptr, ptr %entries.at
  %each.at = getelementptr %Plan, ptr %plan, i64 0, i32 11
  %each = load i64, ptr %each.at
  %width = add i64 %each, 2
  br label %next

next:
  %i = phi i64 [ 0, %search ], [ %following, %differs ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %compare, label %none

none:
  ret i32 -1

compare:
  %start = mul i64 %i, %width
  %entry = getelementptr i64, ptr %entries, i64 %start
  %entry.id = load i64, ptr %entry
  %entry.graph.at = getelementptr i64, ptr %entry, i64 1
  %entry.graph = load i64, ptr %entry.graph.at
  %same.id = icmp eq i64 %entry.id, %id
  %same.graph = icmp eq i64 %entry.graph, %graph
  %same = and i1 %same.id, %same.graph
  br i1 %same, label %hit, label %differs

differs:
  %following = add i64 %i, 1
  br label %next

hit:
  %addresses = getelementptr i64, ptr %entry, i64 2
  store ptr %addresses, ptr %result
  ret i32 0
}
