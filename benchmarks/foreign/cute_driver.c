/* The functions of CUDA that CuTe DSL's host code calls, without a GPU: launches go to Python. */

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* As cudaLaunchConfig_t and cudaLaunchAttribute. */
struct attribute {
  int id, padding;
  unsigned value[16];
};
struct config {
  unsigned dims[6]; /* of the grid and the block */
  size_t shared;
  void *stream;
  const struct attribute *attributes;
  unsigned count;
};

typedef int launch_function(const void *image, const char *kernel, const struct config *config, void **args);

struct kernel {
  const void *image;
  char name[];
};

static launch_function *launch;

void set_launch(launch_function *function) { launch = function; }

/* A library is the address of its image. */
int _cudaLibraryLoadData(const void **library, const void *image) {
  *library = image;
  return 0;
}

int _cudaLibraryGetKernel(struct kernel **kernel, const void *library, const char *name) {
  *kernel = malloc(sizeof **kernel + strlen(name) + 1);
  (*kernel)->image = library;
  strcpy((*kernel)->name, name);
  return 0;
}

int _cudaLaunchKernelEx(const struct config *config, struct kernel *kernel, void **args) {
  return launch(kernel->image, kernel->name, config, args);
}

/* A module for TVM FFI loads itself by two of its functions. */
int cuda_dialect_init_library_once(void **library, int init(void **), int load(void **, int)) {
  int error = *library ? 0 : init(library);
  return error ? error : load(library, 0);
}

void cuda_dialect_unload_library_once(void **library) {}

int _cudaGetDeviceCount(int *count) {
  *count = 1;
  return 0;
}

int _cudaDeviceGetAttribute(int *value, int attribute, int device) {
  *value = attribute == 97 ? 232448 : 0; /* most shared memory of a CTA */
  return 0;
}

int _cuKernelGetAttribute(int *value, int attribute, void *kernel, int device) { return *value = 0; }
int _cudaGetDevice(int *device) { return *device = 0; }
int _cudaSetDevice(int device) { return 0; }
int _cudaLibraryUnload(void *library) { return 0; }
int _cudaKernelSetAttributeForDevice(void *kernel, int attribute, int value, int device) { return 0; }
int _cudaFuncSetAttribute(void *kernel, int attribute, int value) { return 0; }
int _cudaDeviceSynchronize(void) { return 0; }
int _cudaStreamSynchronize(void *stream) { return 0; }
