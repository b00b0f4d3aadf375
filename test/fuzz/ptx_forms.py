"""The scalar instructions of random PTX programs.

A line has opcodes, whose braces list alternatives, and operands: registers of 16 (h), 32 (r) or 64 bits (d),
or predicates (p). Upper-case letters may be constants, too; n is one that isn't 0, C one of a byte, i the
table of `lop3`, and @4 an address, aligned to 4 bytes, of the thread's part of a memory. `;` is between
instructions that belong together.
"""

FIRST_CHIPS = (
    (r"^(add|min|max)\..*[us]16x2|relu\.s32|bf16", 90),
    (r"e4m3|e5m2", 89),
    (r"tf32|relu|NaN|cvt.*f16x2\.f32|^(min|max)\..*f16", 80),
    (r"^cvt\.pack", 72),
)
"""The number of the first chip that has the instructions that a pattern finds; others are older."""
FORMS = {
    "integer": """
        {add,sub,min,max}.{u16,s16} h h H
        {add,sub,min,max}.{u32,s32} r r R
        {add,sub,min,max}.{u64,s64} d d D
        {add,sub}.sat.s32 r r R
        {neg,abs}.s16 h h
        {neg,abs}.s32 r r
        {neg,abs}.s64 d d
        mul.{lo,hi}.{u16,s16} h h H
        mul.{lo,hi}.{u32,s32} r r R
        mul.{lo,hi}.{u64,s64} d d D
        mul.wide.{u16,s16} r h H
        mul.wide.{u32,s32} d r R
        mul24.{lo,hi}.{u32,s32} r r R
        mad.{lo,hi}.{u16,s16} h h h H
        mad.{lo,hi}.{u32,s32} r r r R
        mad.hi.sat.s32 r r r R
        mad.{lo,hi}.{u64,s64} d d d D
        {div,rem}.{u16,s16} h h n
        {div,rem}.{u32,s32} r r n
        {div,rem}.{u64,s64} d d n
        or.b32 %divisor r 1; {div,rem}.{u32,s32} r r %divisor
        {add,sub}.cc.u32 r r R; {addc,subc}.cc.u32 r r R; addc.u32 r r R
        {add,sub}.cc.u64 d d D; {addc,subc}.u64 d d D
        mad.{lo,hi}.cc.u32 r r r R; madc.{lo,hi}.u32 r r r R
        mad.wide.{u16,s16} r h h R
        mad.wide.{u32,s32} d r r D
        mad24.{lo,hi}.{u32,s32} r r r R
        sad.{u16,s16} h h h H
        sad.{u32,s32} r r r R
        sad.{u64,s64} d d d D
        dp4a.{u32,s32}.{u32,s32} r r r R
        dp2a.{lo,hi}.{u32,s32}.{u32,s32} r r r R
    """,
    "bits": """
        {and,or,xor}.b16 h h H
        {and,or,xor}.b32 r r R
        {and,or,xor}.b64 d d D
        {not,cnot}.b16 h h
        {not,cnot}.b32 r r
        {not,cnot}.b64 d d
        shl.b16 h h R
        shl.b32 r r R
        shl.b64 d d R
        shr.{b16,u16,s16} h h R
        shr.{b32,u32,s32} r r R
        shr.{b64,u64,s64} d d R
        shf.{l,r}.{clamp,wrap}.b32 r r r R
        lop3.b32 r r r r i
        prmt.b32 r r r R
        prmt.b32.{f4e,b4e,rc8,ecl,ecr,rc16} r r r R
        bfe.{u32,s32} r r C C
        bfe.{u64,s64} d d C C
        bfi.b32 r r r C C
        bfi.b64 d d d C C
        bfind.{u32,s32} r r
        bfind.{u64,s64} r d
        bfind.shiftamt.{u32,s32} r r
        {clz,popc}.b32 r r
        {clz,popc}.b64 r d
        brev.b32 r r
        brev.b64 d d
        bmsk.{clamp,wrap}.b32 r r R
        szext.{clamp,wrap}.{u32,s32} r r R
        mov.b16 h H
        mov.b32 r R
        mov.b64 d D
        mov.b32 r {h,h}
        mov.b32 {h,h} r
        mov.b64 d {r,r}
        mov.b64 {r,r} d
        mov.b64 {h,h,h,h} d
    """,
    "predicate": """
        setp.{eq,ne,lt,le,gt,ge}.{u16,s16} p h H
        setp.{eq,ne,lt,le,gt,ge}.{u32,s32} p r R
        setp.{eq,ne,lt,le,gt,ge}.{u64,s64} p d D
        setp.{lt,ge,ne}.{and,or,xor}.{u16,s16} p|p h H p
        setp.{lt,ge,ne}.{and,or,xor}.{u32,s32} p|p r R !p
        setp.{lt,ge,ne}.{and,or,xor}.{u64,s64} p d D p
        {and,or,xor}.pred p p p
        not.pred p p
        selp.{b16,u16,s16} h h H p
        selp.{b32,u32,s32,f32} r r R p
        selp.{b64,u64,s64,f64} d d D p
        set.{eq,lt,ge}.u32.{u16,s16} r h H
        set.{eq,lt,ge}.{u32,s32}.{u32,s32} r r R
        set.{eq,lt,ge}.f32.{u32,s32} r r r
        set.{eq,lt,ge}.u32.{u64,s64} r d D
        slct.{b16,u16,s16}.s32 h h h r
        slct.{b32,u32,s32}.{s32,f32} r r r r
        slct.{b64,u64,s64}.s32 d d d r
    """,
    "conversion": """
        cvt.{u8,s8,u16,s16}.{u8,s8,u16,s16} h h
        cvt.{u8,s8,u16,s16}.{u32,s32} h r
        cvt.{u8,s8,u16,s16}.{u64,s64} h d
        cvt.{u8,s8,u32,s32}.{u8,s8,u16,s16} r h
        cvt.{u8,s8,u16,s16,u32,s32}.{u8,s8,u16,s16,u32,s32} r r
        cvt.{u8,s8,u16,s16,u32,s32}.{u64,s64} r d
        cvt.{u8,s8,u64,s64}.{u8,s8,u16,s16} d h
        cvt.{u8,s16,u32,u64,s64}.{u8,s8,u32,s32} d r
        cvt.{u8,s8,u16,s16,u32,s32,u64}.{u64,s64} d d
        cvt.sat.{u8.s8,u8.u16,u8.s16,s8.u8,s8.u16,s8.s16,u16.s8,u16.s16,s16.u16} h h
        cvt.sat.{u8,s8,u16,s16}.{u32,s32} h r
        cvt.sat.{u8.s8,u8.s16,s8.u8,s8.u16,u32.s8,u32.s16} r h
        cvt.sat.{u8.u32,u8.s32,s8.u32,s8.s32,u16.s32,s16.u32,s16.s32,u32.s32,s32.u32} r r
        cvt.sat.{u8,s16,u32,s32}.{u64,s64} r d
        cvt.sat.{u64.s32,u64.s16} d r
        cvt.sat.{u64.s64,s64.u64} d d
        cvt.{rn,rz,rm,rp}.f32.{u8,s8,u16,s16} r h
        cvt.{rn,rz,rm,rp}.f32.{u8,s8,u16,s16,u32,s32} r r
        cvt.{rn,rz,rm,rp}.f32.{u64,s64} r d
        cvt.{rn,rz}.f64.{u8,s8,u16,s16} d h
        cvt.{rn,rm}.f64.{u32,s32} d r
        cvt.{rn,rz,rm,rp}.f64.{u64,s64} d d
        cvt.{rn,rz,rm,rp}.f16.{u8,s8,u16,s16} h h
        cvt.{rn,rz,rm,rp}.f16.{u32,s32} h r
        cvt.{rn,rz}.f16.{u64,s64} h d
        cvt.{rni,rzi,rmi,rpi}.{u8,s8,u16,s16}.f32 h r
        cvt.{rni,rzi,rmi,rpi}.{u32,s32}.f32 r r
        cvt.{rni,rzi,rmi,rpi}.sat.{u8,s8,u16,s16,u32,s32}.f32 r r
        cvt.{rni,rzi}.ftz.{s16,u32}.f32 r r
        cvt.{rni,rzi,rmi,rpi}.{u64,s64}.f32 d r
        cvt.{rni,rzi,rmi,rpi}.{u32,s32}.f64 r d
        cvt.{rni,rzi,rmi,rpi}.{u64,s64}.f64 d d
        cvt.{rni,rzi,rmi,rpi}.{u8,s8,u16,s16}.f16 h h
        cvt.{rni,rzi,rmi,rpi}.{u32,s32}.f16 r h
        cvt.{rni,rzi,rmi,rpi}.{u64,s64}.f16 d h
        cvt.{rni,rzi,rmi,rpi}.f32.f32 r r
        cvt.{rni,rzi,rmi,rpi}.f64.f64 d d
        cvt.{rni,rzi,rmi,rpi}.f16.f16 h h
        cvt.{f32,ftz.f32}.f16 r h
        cvt.f32.bf16 r h
        cvt.{rn,rz,rm,rp}.f16.f32 h r
        cvt.{rn,rz,rn.relu}.bf16.f32 h r
        cvt.f64.f32 d r
        cvt.{rn,rz,rm,rp}.f32.f64 r d
        cvt.{rn,rz}.f16.f64 h d
        cvt.f64.f16 d h
        cvt.rna.tf32.f32 r r
        cvt.{rn,rz,rn.relu}.{f16x2,bf16x2}.f32 r r r
        cvt.rn.satfinite.{e4m3x2,e5m2x2}.f32 h r r
        cvt.rn.satfinite.{e4m3x2,e5m2x2}.f16x2 h r
        cvt.rn.{f16x2,f16x2.relu}.{e4m3x2,e5m2x2} r h
        cvt.pack.sat.{u16,s16}.s32 r r r
        cvt.pack.sat.{u8,s8}.s32.b32 r r r r
    """,
    "packed": """
        {add,min,max}.{u16x2,s16x2} r r r
        {min,max}.relu.s16x2 r r r
        {min,max}.relu.s32 r r r
        {add,sub,mul}.{f16x2,bf16x2} r r r
        {add,sub,mul}.{f16,bf16} h h h
        {add,mul}.sat.f16x2 r r r
        {neg,abs}.{f16x2,bf16x2} r r
        {neg,abs}.{f16,bf16} h h
        fma.rn.{f16x2,bf16x2,relu.f16x2,relu.bf16x2} r r r r
        fma.rn.{f16,bf16,ftz.f16,sat.f16,relu.bf16} h h h h
        {min,max}.{f16x2,bf16x2,NaN.f16x2,NaN.bf16x2} r r r
        {min,max}.{f16,bf16,ftz.f16,NaN.bf16} h h h
        setp.{eq,lt,geu,nan}.{f16,bf16} p h h
        setp.{eq,lt,geu,num}.{f16x2,bf16x2} p|p r r
        set.{eq,lt,neu}.{f16x2.f16x2,bf16x2.bf16x2} r r r
        {vadd2,vsub2,vavrg2,vmin2,vmax2,vabsdiff2}.{u32.u32.u32,s32.s32.s32}.sat r r r r
        {vadd4,vsub4,vavrg4,vmin4,vmax4,vabsdiff4}.{u32.u32.u32,s32.s32.s32} r r r r
    """,
    "floating": """
        {add,sub,mul}.{rn,rz,rm,rp}.f32 r r R
        {add,sub,mul}.{rn,rz,rm,rp}.f64 d d D
        {add,sub,mul}.{ftz,sat,ftz.sat}.f32 r r R
        fma.{rn,rz,rm,rp}.f32 r r r R
        fma.{rn,rz,rm,rp}.f64 d d d D
        fma.rn.{ftz,sat,ftz.sat}.f32 r r r R
        {min,max}.{f32,ftz.f32,NaN.f32} r r R
        {min,max}.f64 d d D
        {neg,abs}.{f32,ftz.f32} r r
        {neg,abs}.f64 d d
        copysign.f32 r r r
        copysign.f64 d d d
        div.{rn,rz,rm,rp}.f32 r r r
        div.rn.f64 d d d
        {rcp,sqrt}.rn.f64 d d
        {rcp,sqrt}.{rn,rz,rm,rp}.f32 r r
        setp.{eq,ne,lt,ge,equ,neu,ltu,geu,num,nan}.{f32,ftz.f32} p r R
        setp.{eq,ne,lt,ge,equ,neu,ltu,geu,num,nan}.f64 p d D
        setp.{lt,gtu}.{and,or,xor}.f32 p|p r R p
        set.{lt,gtu}.{u32,f32}.f32 r r R
        testp.{finite,infinite,number,notanumber,normal,subnormal}.f32 p r
        testp.{finite,infinite,number,notanumber,normal,subnormal}.f64 p d
    """,
    "memory": """
        st.{shared,local,global}.b8 @1 r
        st.{shared,local,global}.b16 @2 h
        st.{shared,local,global}.b32 @4 r
        st.{shared,local,global}.b64 @8 d
        st.{shared,local,global}.v2.b16 @4 {h,h}
        st.{shared,local,global}.v2.b32 @8 {r,r}
        st.{shared,local,global}.v4.b32 @16 {r,r,r,r}
        st.{shared,local,global}.v2.b64 @16 {d,d}
        ld.{shared,local,global}.{u8,s8} h @1
        ld.{shared,local,global}.{u8,s8} r @1
        ld.{shared,local,global}.{b16,u16,s16} h @2
        ld.{shared,local,global}.{u16,s16} r @2
        ld.{shared,local,global}.{b32,u32,s32,f32} r @4
        ld.{shared,local,global}.{u32,s32} d @4
        ld.{shared,local,global}.{b64,u64,s64} d @8
        ld.{shared,local,global}.v4.{u8,s8} {h,h,h,h} @4
        ld.{shared,local,global}.v2.b32 {r,r} @8
        ld.{shared,local,global}.v4.b32 {r,r,r,r} @16
        ld.{shared,local,global}.v2.b64 {d,d} @16
        atom.{shared,global}.{add,min,max}.{u32,s32} r @4 r
        atom.{shared,global}.{and,or,xor,exch}.b32 r @4 r
        atom.{shared,global}.cas.b32 r @4 r r
        atom.{shared,global}.add.u64 d @8 d
    """,
}
