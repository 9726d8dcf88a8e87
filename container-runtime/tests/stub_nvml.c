/* A stand-in for libnvidia-ml.so.1. STUB_GPUS lists GPUs as NAME;NAME, a trailing "+mig" gives one a MIG slice. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX 8
struct thing { int index; int mig; int has_mig; char name[96]; char uuid[96]; };
static struct thing gpus[MAX], slices[MAX];
static int count;

int nvmlInit_v2(void) {
    const char *list = getenv("STUB_GPUS");
    char text[1024];
    snprintf(text, sizeof text, "%s", list ? list : "Stub GPU");
    count = 0;
    for (char *name = strtok(text, ";"); name && count < MAX; name = strtok(NULL, ";"), count++) {
        struct thing *gpu = &gpus[count];
        char *mig = strstr(name, "+mig");
        if (mig) *mig = 0;
        gpu->index = count;
        gpu->has_mig = mig != NULL;
        snprintf(gpu->name, sizeof gpu->name, "%s", name);
        snprintf(gpu->uuid, sizeof gpu->uuid, "GPU-00000000-0000-0000-0000-00000000000%d", count);
        slices[count] = *gpu;
        slices[count].mig = 1;
        snprintf(slices[count].uuid, sizeof slices[count].uuid, "MIG-00000000-0000-0000-0000-00000000000%d", count);
    }
    return 0;
}
int nvmlInitWithFlags(unsigned f) { (void)f; return nvmlInit_v2(); }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { (void)code; return "stub"; }
static int text(char *to, unsigned size, const char *from) { snprintf(to, size, "%s", from); return 0; }
int nvmlSystemGetDriverVersion(char *to, unsigned size) { return text(to, size, "550.54.15"); }
int nvmlSystemGetCudaDriverVersion_v2(int *v) { *v = 12040; return 0; }
int nvmlSystemGetCudaDriverVersion(int *v) { *v = 12040; return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = count; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, struct thing **d) { if (i >= (unsigned)count) return 2; *d = &gpus[i]; return 0; }
int nvmlDeviceGetHandleByUUID(const char *uuid, struct thing **d) {
    for (int i = 0; i < count; i++) if (!strcmp(gpus[i].uuid, uuid)) { *d = &gpus[i]; return 0; }
    return 6;
}
int nvmlDeviceGetName(struct thing *d, char *to, unsigned size) { return text(to, size, d->name); }
int nvmlDeviceGetUUID(struct thing *d, char *to, unsigned size) { return text(to, size, d->uuid); }
int nvmlDeviceGetMinorNumber(struct thing *d, unsigned *n) { *n = d->index; return 0; }
int nvmlDeviceGetIndex(struct thing *d, unsigned *n) { *n = d->index; return 0; }
int nvmlDeviceGetCudaComputeCapability(struct thing *d, int *a, int *b) { (void)d; *a = 9; *b = 0; return 0; }
int nvmlDeviceGetMigMode(struct thing *d, unsigned *now, unsigned *pending) { *now = *pending = d->has_mig; return 0; }
int nvmlDeviceGetMaxMigDeviceCount(struct thing *d, unsigned *n) { *n = d->has_mig ? 2 : 0; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(struct thing *d, unsigned i, struct thing **m) { if (i) return 6; *m = &slices[d->index]; return 0; }
int nvmlDeviceIsMigDeviceHandle(struct thing *d, unsigned *is) { *is = d->mig; return 0; }
int nvmlDeviceGetGpuInstanceId(struct thing *d, unsigned *n) { (void)d; *n = 1; return 0; }
int nvmlDeviceGetComputeInstanceId(struct thing *d, unsigned *n) { (void)d; *n = 0; return 0; }
struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char text[32]; };
int nvmlDeviceGetPciInfo_v3(struct thing *d, struct pci *p) {
    memset(p, 0, sizeof *p);
    p->bus = d->index + 1;
    snprintf(p->text, sizeof p->text, "00000000:%02X:00.0", d->index + 1);
    return 0;
}
