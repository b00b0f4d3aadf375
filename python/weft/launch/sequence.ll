; Host code that queues a prepared sequence of launches, copies and events on a GPU. `sequence.py` fills the structures
; and compiles this file.
;
; The steps are words of 64 bits: what is done, and then its operands. A place is two words: the number of one of the
; caller's addresses and a byte from there on, or -1 and an address. Streams are 0, the caller's, and 1, the GPU's
; other one. Each of both has an event.

%Driver = type {
  ptr, ; cuCtxGetCurrent
  ptr, ; cuCtxPushCurrent
  ptr, ; cuCtxPopCurrent
  ptr, ; cuMemcpyDtoDAsync
  ptr, ; cuMemsetD32Async
  ptr, ; cuEventRecord
  ptr  ; cuStreamWaitEvent
}
%Sequence = type {
  ptr, ; 0 %Driver
  i64, ; 1 context
  ptr, ; 2 %Lane
  ptr, ; 3 the number of calls so far, or null
  ptr, ; 4 the steps of calls with an even number, and of all without one
  ptr, ; 5 the steps of calls with an odd number
  i64  ; 6 the most addresses of a launch
}
%Lane = type {
  i64, ; 0 whether a thread queues a sequence on this GPU
  i64, ; 1 the stream of the sequence before, or 0
  i64, ; 2 the event of its end
  i64, ; 3 the other stream
  i64, ; 4 the event of the caller's stream
  i64  ; 5 the event of the other stream
}
%Place = type { i64, i64 }

declare i32 @weft_launch(ptr, ptr, i64)

; Queues a sequence, in its context. Returns the status of the step that failed: the driver's, or that of a launch.
define i32 @weft_sequence(ptr %sequence, ptr %given, i64 %stream) {
  %current = alloca i64
  %driver = load ptr, ptr %sequence
  %get = load ptr, ptr %driver
  %asked = call i32 %get(ptr %current)
  %known = icmp eq i32 %asked, 0
  br i1 %known, label %compare, label %unknown

unknown:
  ret i32 %asked

compare:
  %context.at = getelementptr %Sequence, ptr %sequence, i64 0, i32 1
  %context = load i64, ptr %context.at
  %now = load i64, ptr %current
  %same = icmp eq i64 %now, %context
  br i1 %same, label %direct, label %enter

direct:
  %status = call i32 @alone(ptr %sequence, ptr %given, i64 %stream)
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
  %result = call i32 @alone(ptr %sequence, ptr %given, i64 %stream)
  %pop.at = getelementptr %Driver, ptr %driver, i64 0, i32 2
  %pop = load ptr, ptr %pop.at
  %popped = call i32 %pop(ptr %current)
  ret i32 %result
}

; Sequences of a GPU are queued one at a time, and follow each other on all streams.
define internal i32 @alone(ptr %sequence, ptr %given, i64 %stream) {
  %lane.at = getelementptr %Sequence, ptr %sequence, i64 0, i32 2
  %lane = load ptr, ptr %lane.at
  br label %try

try:
  %pair = cmpxchg ptr %lane, i64 0, i64 1 acquire monotonic, align 8
  %mine = extractvalue { i64, i1 } %pair, 1
  br i1 %mine, label %order, label %try

order:
  %driver = load ptr, ptr %sequence
  %ended.at = getelementptr %Lane, ptr %lane, i64 0, i32 2
  %ended = load i64, ptr %ended.at
  %last.at = getelementptr %Lane, ptr %lane, i64 0, i32 1
  %last = load i64, ptr %last.at
  %first = icmp eq i64 %last, 0
  %same = icmp eq i64 %last, %stream
  %ordered = or i1 %first, %same
  br i1 %ordered, label %go, label %follow

follow:
  %wait.at = getelementptr %Driver, ptr %driver, i64 0, i32 6
  %wait = load ptr, ptr %wait.at
  %waited = call i32 %wait(i64 %stream, i64 %ended, i32 0)
  %follows = icmp eq i32 %waited, 0
  br i1 %follows, label %go, label %leave

go:
  %done = call i32 @steps(ptr %sequence, ptr %given, i64 %stream)
  %well = icmp eq i32 %done, 0
  br i1 %well, label %end, label %leave

end:
  store i64 %stream, ptr %last.at
  %record.at = getelementptr %Driver, ptr %driver, i64 0, i32 5
  %record = load ptr, ptr %record.at
  %recorded = call i32 %record(i64 %ended, i64 %stream)
  br label %leave

leave:
  %status = phi i32 [ %waited, %follow ], [ %done, %go ], [ %recorded, %end ]
  store atomic i64 0, ptr %lane release, align 8
  ret i32 %status
}

define internal i32 @steps(ptr %sequence, ptr %given, i64 %stream) {
  %streams = alloca i64, i64 2
  %most.at = getelementptr %Sequence, ptr %sequence, i64 0, i32 6
  %most = load i64, ptr %most.at
  %addresses = alloca i64, i64 %most
  %driver = load ptr, ptr %sequence
  %lane.at = getelementptr %Sequence, ptr %sequence, i64 0, i32 2
  %lane = load ptr, ptr %lane.at
  %events = getelementptr %Lane, ptr %lane, i64 0, i32 4
  %other.at = getelementptr %Lane, ptr %lane, i64 0, i32 3
  %other = load i64, ptr %other.at
  store i64 %stream, ptr %streams
  %second.at = getelementptr i64, ptr %streams, i64 1
  store i64 %other, ptr %second.at
  %counter.at = getelementptr %Sequence, ptr %sequence, i64 0, i32 3
  %counter = load ptr, ptr %counter.at
  %uncounted = icmp eq ptr %counter, null
  br i1 %uncounted, label %begin, label %count

count:
  %before = load i64, ptr %counter
  %counted = add i64 %before, 1
  store i64 %counted, ptr %counter
  br label %begin

begin:
  %call = phi i64 [ 0, %0 ], [ %counted, %count ]
  %number = trunc i64 %call to i32
  %even.at = getelementptr %Sequence, ptr %sequence, i64 0, i32 4
  %odd.at = getelementptr %Sequence, ptr %sequence, i64 0, i32 5
  %low = and i64 %call, 1
  %is.odd = icmp eq i64 %low, 1
  %words.at = select i1 %is.odd, ptr %odd.at, ptr %even.at
  %words = load ptr, ptr %words.at
  br label %next

next:
  %step = phi ptr [ %words, %begin ], [ %following, %finished ]
  %one = getelementptr i64, ptr %step, i64 1
  %two = getelementptr i64, ptr %step, i64 2
  %three = getelementptr i64, ptr %step, i64 3
  %operand = load i64, ptr %one
  %what = load i64, ptr %step
  switch i64 %what, label %done [ i64 1, label %launch
                                  i64 2, label %copy
                                  i64 3, label %set
                                  i64 4, label %record
                                  i64 5, label %wait ]

done:
  ret i32 0

launch: ; a plan, how many addresses, their places
  %plan = inttoptr i64 %operand to ptr
  %count.of = load i64, ptr %two
  br label %address

address:
  %i = phi i64 [ 0, %launch ], [ %i.following, %store ]
  %more = icmp ult i64 %i, %count.of
  br i1 %more, label %store, label %queue

store:
  %place = getelementptr %Place, ptr %three, i64 %i
  %address.of = call i64 @address(ptr %place, ptr %given)
  %address.at = getelementptr i64, ptr %addresses, i64 %i
  store i64 %address.of, ptr %address.at
  %i.following = add i64 %i, 1
  br label %address

queue:
  %launched = call i32 @weft_launch(ptr %plan, ptr %addresses, i64 %stream)
  %after.launch = getelementptr %Place, ptr %three, i64 %count.of
  br label %finished

copy: ; a stream, bytes, where to, from where
  %copy.on = call i64 @chosen(ptr %streams, i64 %operand)
  %bytes = load i64, ptr %two
  %to = call i64 @address(ptr %three, ptr %given)
  %from.at = getelementptr %Place, ptr %three, i64 1
  %from = call i64 @address(ptr %from.at, ptr %given)
  %copy.at = getelementptr %Driver, ptr %driver, i64 0, i32 3
  %copies = load ptr, ptr %copy.at
  %copied = call i32 %copies(i64 %to, i64 %from, i64 %bytes, i64 %copy.on)
  %after.copy = getelementptr %Place, ptr %three, i64 2
  br label %finished

set: ; the place of the number of the call
  %flag = call i64 @address(ptr %one, ptr %given)
  %set.at = getelementptr %Driver, ptr %driver, i64 0, i32 4
  %sets = load ptr, ptr %set.at
  %is.set = call i32 %sets(i64 %flag, i32 %number, i64 1, i64 %stream)
  br label %finished

record: ; a stream, whose event is recorded
  %record.on = call i64 @chosen(ptr %streams, i64 %operand)
  %record.event = call i64 @chosen(ptr %events, i64 %operand)
  %record.at = getelementptr %Driver, ptr %driver, i64 0, i32 5
  %records = load ptr, ptr %record.at
  %recorded = call i32 %records(i64 %record.event, i64 %record.on)
  br label %finished

wait: ; a stream, and the one whose event it waits for
  %wait.on = call i64 @chosen(ptr %streams, i64 %operand)
  %awaited = load i64, ptr %two
  %wait.event = call i64 @chosen(ptr %events, i64 %awaited)
  %wait.at = getelementptr %Driver, ptr %driver, i64 0, i32 6
  %waits = load ptr, ptr %wait.at
  %waited = call i32 %waits(i64 %wait.on, i64 %wait.event, i32 0)
  br label %finished

finished:
  %status = phi i32 [ %launched, %queue ], [ %copied, %copy ], [ %is.set, %set ], [ %recorded, %record ], [ %waited, %wait ]
  %following = phi ptr [ %after.launch, %queue ], [ %after.copy, %copy ], [ %three, %set ], [ %two, %record ], [ %three, %wait ]
  %well = icmp eq i32 %status, 0
  br i1 %well, label %next, label %failed

failed:
  ret i32 %status
}

define internal i64 @chosen(ptr %values, i64 %number) {
  %at = getelementptr i64, ptr %values, i64 %number
  %value = load i64, ptr %at
  ret i64 %value
}

define internal i64 @address(ptr %place, ptr %given) {
  %number = load i64, ptr %place
  %begin.at = getelementptr %Place, ptr %place, i64 0, i32 1
  %begin = load i64, ptr %begin.at
  %fixed = icmp slt i64 %number, 0
  br i1 %fixed, label %here, label %there

here:
  ret i64 %begin

there:
  %start = call i64 @chosen(ptr %given, i64 %number)
  %at = add i64 %start, %begin
  ret i64 %at
}
