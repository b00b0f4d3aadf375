"""The first words of all PTX instructions that the tables don't describe (PTX ISA, "Instruction Set"), so
that an unknown word can be reported.
"""

_OTHER = """
abs activemask add addc alloca and applypriority atom bar barrier bfe bfi bfind bmsk bra brev brkpt brx
call clmad clusterlaunchcontrol clz cnot copysign cos cp createpolicy cvt cvta discard div dp2a dp4a elect
ex2 exit fence fma fns getctarank griddepcontrol isspacep istypep ld ldu lg2 lop3 mad mad24 madc mapa
match max mbarrier membar min mov mul mul24 multimem nanosleep neg not or pmevent popc prefetch prefetchu
prmt rcp red redux rem ret rsqrt sad selp set setmaxnreg setp setsmemsize shf shfl shl shr sin slct sqrt
st stackrestore stacksave sub subc suld suq sured sust szext tanh tensormap testp tex tld4 trap txq
vabsdiff vabsdiff2 vabsdiff4 vadd vadd2 vadd4 vavrg2 vavrg4 vmad vmax vmax2 vmax4 vmin vmin2 vmin4 vote
vset vset2 vset4 vshl vshr vsub vsub2 vsub4 xor
"""

OTHER = frozenset(_OTHER.split())
