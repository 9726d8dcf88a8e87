/* A SPANK plugin that takes the flags of Pyxis and runs the task in an image. It stands in for Pyxis in tests, where SLURM
 * itself is real: the mounts are made by root in slurmstepd, not in a user namespace.
 *
 * build:         gcc -shared -fPIC -o pyxis_flags.so pyxis_flags.c       (slurm/spank.h is in libslurm-dev)
 * plugstack.conf: required /path/pyxis_flags.so
 *
 * An image is a squashfs file, a folder, or a name that `enroot import` fetches as the job's user. As with Pyxis: the image's
 * variables (/etc/environment in it) win over the job's unless --container-env names them; its files are read-only unless
 * --container-writable; /proc, /sys, /dev and three files of /etc are the node's; the home is mounted unless told not to;
 * the batch script runs on the node itself; what goes wrong ends the step, in Pyxis' words. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <sched.h>
#include <slurm/spank.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

SPANK_PLUGIN(pyxis_flags, 1)

#define SCRATCH "/tmp/pyxis" /* on the node */
#define FIRST_STEP_THAT_IS_NONE 0xfffffff0u /* batch, extern and interactive steps have numbers from here on */

enum { IMAGE, MOUNTS, WORKDIR, NAME, ENV, WRITABLE, READONLY, HOME, NO_HOME, REMAP, NO_REMAP, ENTRY, NO_ENTRY, FLAGS };

static char *given[FLAGS];

static int take(int flag, const char *argument, int remote)
{
    (void)remote;
    free(given[flag]);
    given[flag] = strdup(argument ? argument : "yes");
    return 0;
}

static struct spank_option flags[] = {
    {"container-image", "IMAGE|PATH", "[pyxis] image, squashfs file or folder", 1, IMAGE, take},
    {"container-mounts", "SRC:DST[:FLAGS][,...]", "[pyxis] bind mounts; flags ro, rw", 1, MOUNTS, take},
    {"container-workdir", "PATH", "[pyxis] working directory", 1, WORKDIR, take},
    {"container-name", "NAME", "[pyxis] taken, and not kept between steps", 1, NAME, take},
    {"container-env", "NAME[,NAME...]", "[pyxis] variables that win over the image's", 1, ENV, take},
    {"container-writable", NULL, "[pyxis] the image can be written to", 0, WRITABLE, take},
    {"container-readonly", NULL, "[pyxis] it cannot", 0, READONLY, take},
    {"container-mount-home", NULL, "[pyxis] mount the home", 0, HOME, take},
    {"no-container-mount-home", NULL, "[pyxis] do not", 0, NO_HOME, take},
    {"container-remap-root", NULL, "[pyxis] taken and ignored", 0, REMAP, take},
    {"no-container-remap-root", NULL, "[pyxis] taken and ignored", 0, NO_REMAP, take},
    {"container-entrypoint", NULL, "[pyxis] taken and ignored", 0, ENTRY, take},
    {"no-container-entrypoint", NULL, "[pyxis] taken and ignored", 0, NO_ENTRY, take},
    SPANK_OPTIONS_TABLE_END};

static struct {
    uint32_t job, step;
    int task;
    uid_t uid;
    struct passwd *user;
} self;

static char newroot[PATH_MAX]; /* where the image is put together */
static char workdir[PATH_MAX]; /* where its task starts */

static int fail(const char *format, ...)
{
    char words[PATH_MAX + 256];
    va_list rest;
    va_start(rest, format);
    vsnprintf(words, sizeof words, format, rest);
    va_end(rest);
    slurm_error("pyxis: %s", words);
    return -1;
}

int slurm_spank_init(spank_t spank, int count, char **words)
{
    (void)count, (void)words;
    if (spank_context() == S_CTX_SLURMD || spank_context() == S_CTX_JOB_SCRIPT)
        return 0;
    for (struct spank_option *flag = flags; flag->name; flag++)
        if (spank_option_register(spank, flag) != ESPANK_SUCCESS)
            return fail("cannot register --%s", flag->name);
    return 0;
}

static int make_folders(const char *path, mode_t mode)
{
    char part[PATH_MAX];
    snprintf(part, sizeof part, "%s", path);
    for (char *slash = part + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = 0;
        if (mkdir(part, 0755) && errno != EEXIST)
            return -1;
    }
    return mkdir(part, mode) && errno != EEXIST ? -1 : 0;
}

/* Run a program and wait for it; as the job's user, in his home and without his variables, if so wanted. */
static int run(char *const program[], int as_user)
{
    int status;
    pid_t child = fork();
    if (!child) {
        if (as_user) {
            clearenv();
            setenv("HOME", self.user->pw_dir, 1);
            setenv("PATH", "/usr/local/bin:/usr/bin:/bin", 1);
            if (initgroups(self.user->pw_name, self.user->pw_gid) || setgid(self.user->pw_gid) || setuid(self.uid))
                _exit(126);
        }
        execvp(program[0], program);
        _exit(127);
    }
    return child < 0 || waitpid(child, &status, 0) < 0 || status ? -1 : 0;
}

/* Fetch an image by its name, once per step and node; a second task of the step waits for the first. */
static int import(const char *name, char *path, size_t size)
{
    char lock[PATH_MAX], address[PATH_MAX];
    snprintf(path, size, SCRATCH "/%u.%u.sqsh", self.job, self.step);
    snprintf(lock, sizeof lock, SCRATCH "/%u.%u.lock", self.job, self.step);
    snprintf(address, sizeof address, "%s%s", strncmp(name, "docker://", 9) ? "docker://" : "", name);
    int held = open(lock, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (held < 0 || flock(held, LOCK_EX))
        return fail("lock %s: %s", lock, strerror(errno));
    int failed = 0;
    if (access(path, F_OK)) {
        char *program[] = {"enroot", "import", "--output", path, address, NULL};
        slurm_spank_log("pyxis: importing docker image: %s", name);
        failed = run(program, 1);
        if (!failed)
            slurm_spank_log("pyxis: imported docker image: %s", name);
    }
    close(held);
    return failed ? fail("failed to import docker image: %s", name) : 0;
}

/* Mount what the image holds at `place`. */
static int mount_image(const char *place)
{
    char path[PATH_MAX];
    struct stat found;
    if (strchr("./", *given[IMAGE]))
        snprintf(path, sizeof path, "%s", given[IMAGE]);
    else if (import(given[IMAGE], path, sizeof path))
        return -1;
    if (stat(path, &found))
        return fail("failed to create container filesystem for image: %s\n    [ERROR] No such file or directory: %s", path, path);
    if (S_ISDIR(found.st_mode))
        return mount(path, place, NULL, MS_BIND, NULL) ? fail("couldn't mount %s: %s", path, strerror(errno)) : 0;
    char *program[] = {"mount", "-t", "squashfs", "-o", "loop,ro", path, (char *)place, NULL};
    return run(program, 0) ? fail("failed to create container filesystem for image: %s", path) : 0;
}

static int touch(const char *path)
{
    char *folder = strdup(path);
    *strrchr(folder, '/') = 0;
    make_folders(folder, 0755);
    free(folder);
    int file = open(path, O_CREAT | O_WRONLY, 0644);
    return file < 0 ? -1 : close(file);
}

static int bind(const char *source, const char *inside, unsigned long extra, int needed)
{
    char target[PATH_MAX];
    struct stat found;
    snprintf(target, sizeof target, "%.2000s%.2000s", newroot, inside);
    if (stat(source, &found))
        return needed ? fail("--container-mounts: source path does not exist: %s", source) : 0;
    if (S_ISDIR(found.st_mode))
        make_folders(target, 0755);
    else
        touch(target);
    if (mount(source, target, NULL, MS_BIND | MS_REC, NULL))
        return needed ? fail("couldn't mount: %s at %s: %s", source, inside, strerror(errno)) : 0;
    if (extra && mount(NULL, target, NULL, MS_BIND | MS_REMOUNT | extra, NULL))
        return fail("couldn't remount %s: %s", inside, strerror(errno));
    return 0;
}

static int bind_what_was_asked_for(void)
{
    char *rest, *list = strdup(given[MOUNTS]);
    for (char *each = strtok_r(list, ",", &rest); each; each = strtok_r(NULL, ",", &rest)) {
        char *target = strchr(each, ':'), *how = NULL;
        if (target) {
            *target++ = 0;
            if ((how = strchr(target, ':')))
                *how++ = 0;
        }
        if (*each != '/' || (target && *target != '/'))
            return fail("invalid mount: %s", each);
        if (bind(each, target ? target : each, how && strstr(how, "ro") ? MS_RDONLY : 0, 1))
            return -1;
    }
    free(list);
    return 0;
}

/* The image under a layer of its own, which is gone with the task: mount points can be made in it. */
static int put_together(void)
{
    char place[PATH_MAX], part[PATH_MAX], options[PATH_MAX * 3 + 64];
    snprintf(place, sizeof place, SCRATCH "/run-%u.%u.%d", self.job, self.step, self.task);
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_SLAVE | MS_REC, NULL))
        return fail("unshare: %s", strerror(errno));
    if (make_folders(place, 0755) || mount("tmpfs", place, "tmpfs", 0, "mode=755"))
        return fail("tmpfs %s: %s", place, strerror(errno));
    for (const char *const *each = (const char *const[]){"image", "upper", "work", "root", NULL}; *each; each++) {
        snprintf(part, sizeof part, "%.4000s/%s", place, *each);
        mkdir(part, 0755);
        if (given[WRITABLE] && !strcmp(*each, "upper") && chown(part, self.uid, -1))
            return fail("chown: %s", strerror(errno));
    }
    snprintf(part, sizeof part, "%.4000s/image", place);
    if (mount_image(part))
        return -1;
    snprintf(newroot, sizeof newroot, "%.4000s/root", place);
    snprintf(options, sizeof options, "lowerdir=%.4000s/image,upperdir=%.4000s/upper,workdir=%.4000s/work", place, place, place);
    return mount("overlay", newroot, "overlay", 0, options) ? fail("overlay: %s", strerror(errno)) : 0;
}

static int mount_the_rest(const char *cwd)
{
    char path[PATH_MAX * 2];
    if (bind("/proc", "/proc", 0, 1) || bind("/sys", "/sys", MS_RDONLY, 1) || bind("/dev", "/dev", 0, 1))
        return -1;
    for (const char *const *each = (const char *const[]){"/etc/hosts", "/etc/hostname", "/etc/resolv.conf", NULL}; *each; each++)
        bind(*each, *each, MS_RDONLY, 0);
    snprintf(path, sizeof path, "%.4000s/tmp", newroot);
    make_folders(path, 01777);
    mount("tmpfs", path, "tmpfs", MS_NOSUID, "mode=1777");
    if (!given[NO_HOME] && bind(self.user->pw_dir, self.user->pw_dir, 0, 0))
        return -1;
    if (given[MOUNTS] && bind_what_was_asked_for())
        return -1;
    snprintf(path, sizeof path, "%.4000s%.4000s", newroot, cwd); /* slurmstepd goes there after us */
    make_folders(path, 0755);
    if (!given[WRITABLE] && mount(NULL, newroot, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL))
        return fail("read-only root: %s", strerror(errno));
    return 0;
}

static int is_named(const char *name)
{
    char *list = NULL, *wanted = NULL;
    if (asprintf(&list, ",%s,", given[ENV] ? given[ENV] : "") < 0 || asprintf(&wanted, ",%s,", name) < 0)
        return 0;
    int found = strstr(list, wanted) != NULL;
    free(list);
    free(wanted);
    return found;
}

static void set_variables(spank_t spank)
{
    char path[PATH_MAX + 32], there[8], *line = NULL;
    size_t room = 0;
    ssize_t length;
    snprintf(path, sizeof path, "%s/etc/environment", newroot);
    FILE *file = fopen(path, "r");
    while (file && (length = getline(&line, &room, file)) > 0) {
        line[strcspn(line, "\n")] = 0;
        char *value = strchr(line, '=');
        if (!value || value == line || *line == '#')
            continue;
        *value++ = 0;
        if (!is_named(line) || spank_getenv(spank, line, there, sizeof there) == ESPANK_ENV_NOEXIST)
            spank_setenv(spank, line, value, 1);
    }
    free(line);
    if (file)
        fclose(file);
}

/* enroot keeps the image's working directory in /etc/rc as:  cd "/opt" && ... */
static void choose_workdir(void)
{
    char path[PATH_MAX + 32], line[PATH_MAX], found[PATH_MAX] = "/";
    snprintf(path, sizeof path, "%s/etc/rc", newroot);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "cd \"%4000[^\"]\"", found) == 1)
            break;
    if (file)
        fclose(file);
    snprintf(workdir, sizeof workdir, "%s", given[WORKDIR] ? given[WORKDIR] : found);
}

static int enter_image(spank_t spank)
{
    char cwd[PATH_MAX];
    if (!getcwd(cwd, sizeof cwd))
        strcpy(cwd, "/");
    if (make_folders(SCRATCH, 0755) || chmod(SCRATCH, 01777))
        return fail(SCRATCH ": %s", strerror(errno));
    if (put_together() || mount_the_rest(cwd))
        return -1;
    set_variables(spank);
    choose_workdir();
    return chroot(newroot) || chdir(cwd) ? fail("chroot: %s", strerror(errno)) : 0;
}

static int has_image(spank_t spank)
{
    spank_get_item(spank, S_JOB_ID, &self.job);
    spank_get_item(spank, S_JOB_STEPID, &self.step);
    spank_get_item(spank, S_TASK_ID, &self.task);
    spank_get_item(spank, S_JOB_UID, &self.uid);
    self.user = getpwuid(self.uid);
    return given[IMAGE] && self.user && self.step < FIRST_STEP_THAT_IS_NONE;
}

/* Mount points are made with a umask of our own: the job's is that of whoever ran sbatch, and 077 would lock its user out. */
int slurm_spank_task_init_privileged(spank_t spank, int count, char **words)
{
    (void)count, (void)words;
    if (!has_image(spank))
        return 0;
    mode_t jobs = umask(022);
    int failed = enter_image(spank);
    umask(jobs);
    return failed;
}

int slurm_spank_task_init(spank_t spank, int count, char **words)
{
    (void)spank, (void)count, (void)words;
    return *workdir && chdir(workdir) ? fail("couldn't chdir to %s: %s", workdir, strerror(errno)) : 0;
}

int slurm_spank_task_exit(spank_t spank, int count, char **words)
{
    char path[PATH_MAX];
    (void)count, (void)words;
    if (!has_image(spank))
        return 0;
    snprintf(path, sizeof path, SCRATCH "/run-%u.%u.%d", self.job, self.step, self.task);
    rmdir(path);
    snprintf(path, sizeof path, SCRATCH "/%u.%u.sqsh", self.job, self.step);
    unlink(path);
    return 0;
}
