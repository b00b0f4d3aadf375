// COMMAND: weft compile --emit launch --arch sm_90a
gpu.module @m {
gpu.func @ordering() {
  "wgmma.wait_group"() {group = -9223372036854775808 : i65535} : () -> ()
  gpu.return
}
gpu.func @kernel() kernel {
  gpu.return
}
}
