"""Values in no row of the tables, by family and axis, which the comparison with ptxas tries, too."""

_WMMA_SHAPES = ("m8n8k4", "m16n8k16", "m8n32k8", "m32n8k8", "m8n8k64", "m16n16k32")
_WMMA_TYPES = ("f64", "e4m3")
_SPARSE_TYPES = ("f32", "f64", "b1")
_SCALED = {
    "kind": ("f8f6f4",),
    "a_type": ("f16", "s8"),
    "b_type": ("f16", "s8"),
    "c_type": ("f16",),
    "d_type": ("f16",),
    "a_layout": ("col",),
    "b_layout": ("row",),
}
_WGMMA = {
    "shape": ("m64n12k16", "m64n264k16", "m128n64k16", "m64n8k128"),
    "a_type": ("s4", "e2m1"),
    "b_type": ("s4", "e2m1"),
    "d_type": ("bf16",),
    "bit_op": ("xor.popc",),
}
_TCGEN05 = {
    "kind": ("mxf8f6f4", "mxf4", "f32"),
    "cta_group": (3,),
    "collector_a": ("keep",),
    "disable_output_lane": (2,),
    "collector_b": ("b0::fill",),
    "decompress": ("lut::a",),
}
_TCGEN05_SCALED = {
    "kind": ("f16", "f8f6f4", "i8"),
    "cta_group": (3,),
    "scale_vec": ("8X", "block64"),
    "collector_a": ("keep",),
    "ashift": (True,),
    "collector_b": ("b0::fill",),
    "decompress": ("lut::a",),
}
_TCGEN05_WS = {
    "kind": ("mxf8f6f4", "mxf4"),
    "collector_buffer": ("a", "b", "b4"),
    "collector": ("keep",),
    "cta_group": (2, 3),
    "block_scale": (True,),
    "ashift": (True,),
}
_SPARSE = {"decompress": ("lut::b", "lut::a")}

NEAR: dict[str, dict[str, tuple[object, ...]]] = {
    "wmma.load": {
        "shape": _WMMA_SHAPES,
        "fragment": ("d",),
        "type": _WMMA_TYPES,
        "space": ("local", "const"),
    },
    "wmma.store": {"shape": _WMMA_SHAPES, "type": _WMMA_TYPES, "space": ("local", "const")},
    "wmma.mma": {
        "shape": _WMMA_SHAPES,
        "a_type": _WMMA_TYPES,
        "b_type": _WMMA_TYPES,
        "bit_op": ("or.popc", "popc"),
    },
    "mma.sync": {
        "shape": ("m16n16k16",),
        "a_type": ("f32",),
        "c_type": ("bf16",),
        "kind": ("mxf8f6f4",),
    },
    "mma.sp": {
        "shape": ("m8n8k16", "m16n8k4", "m16n8k256"),
        "a_type": _SPARSE_TYPES,
        "b_type": _SPARSE_TYPES,
        "c_type": ("bf16",),
        "d_type": ("bf16",),
        "kind": ("mxf8f6f4",),
    },
    "mma.block_scale": {**_SCALED, "shape": ("m8n8k32", "m16n8k16", "m16n8k128")},
    "mma.sp.block_scale": {
        **_SCALED,
        "shape": ("m8n8k64", "m16n8k32", "m16n8k256"),
        "ordered": (False,),
    },
    "ldmatrix": {"shape": ("m16n8", "m8n32"), "num": (3, 8), "type": ("b32", "b8x16")},
    "stmatrix": {
        "shape": ("m8n16", "m16n16"),
        "num": (3, 8),
        "type": ("b32", "b8x16.b6x16_p32", "b8x16.b4x16_p64"),
    },
    "movmatrix": {"shape": ("m16n8", "m8n16", "m16n16"), "trans": (False,), "type": ("b8", "b32")},
    "wgmma.mma_async": {**_WGMMA},
    "wgmma.mma_async.sp": {**_WGMMA},
    "tcgen05.alloc": {"cta_group": (0, 3), "space": ("shared", "shared::cluster")},
    "tcgen05.dealloc": {"cta_group": (0, 3)},
    "tcgen05.relinquish_alloc_permit": {"cta_group": (0, 3)},
    "tcgen05.commit": {
        "cta_group": (0, 3),
        "space": ("shared", "shared::cta"),
        "multicast": (8, 64),
        "sync_restrict": ("shared::read", "shared::read::mma::b", "shared::cta", "shared::cluster"),
    },
    "tcgen05.wait": {"kind": ("mma", "cp")},
    "tcgen05.fence": {"kind": ("before", "thread_sync")},
    "tcgen05.cp": {
        "shape": ("64x256b", "32x256b", "16x128b"),
        "multicast": ("warpx2", "warpx2::03_12", "warpx8"),
        "cta_group": (0, 3),
        "source_format": ("b8x16", "b6x16_p64", "b4x16_p32"),
    },
    "tcgen05.shift": {"cta_group": (0, 3), "direction": ("up",)},
    "tcgen05.ld": {"shape": ("16x32b", "32x64b", "8x256b"), "num": (3, 256)},
    "tcgen05.st": {"shape": ("16x32b", "32x64b", "8x256b"), "num": (3, 256)},
    "tcgen05.ld.red": {
        "shape": ("16x64b", "16x128b", "16x32b"),
        "num": (1, 3, 256),
        "op": ("add", "xor"),
        "type": ("f16", "b32", "u64"),
    },
    "tcgen05.ld.spcompress": {"num": (1, 2, 3, 256), "op": ("add",)},
    "tcgen05.mma": {**_TCGEN05},
    "tcgen05.mma.sp": {**_TCGEN05, **_SPARSE},
    "tcgen05.mma.block_scale": {**_TCGEN05_SCALED},
    "tcgen05.mma.sp.block_scale": {**_TCGEN05_SCALED, **_SPARSE},
    "tcgen05.mma.ws": {**_TCGEN05_WS},
    "tcgen05.mma.ws.sp": {**_TCGEN05_WS},
}
