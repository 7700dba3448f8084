/* What the benchmarks run: small and static, so that the cost of creating a
 * process is the kernel's and not that of a large program. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Says that it is there, and waits for a line. */
static void gate(void)
{
	char line[8];

	printf("%d\n", getpid());
	fflush(stdout);
	if (read(0, line, sizeof(line)) <= 0)
		exit(1);
}

static long long now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

/* Starts a program so many times, one after the other. */
static void spawn(long count, char *program)
{
	char *arguments[] = { program, "nothing", NULL };
	char *environment[] = { NULL };

	while (count-- > 0) {
		pid_t child = vfork();

		if (child == 0) {
			execve(program, arguments, environment);
			_exit(127);
		}
		if (child < 0 || waitpid(child, NULL, 0) != child)
			exit(1);
	}
}

/* Forks so many times, one after the other. */
static void forks(long count)
{
	while (count-- > 0) {
		pid_t child = fork();

		if (child == 0)
			_exit(0);
		if (child < 0 || waitpid(child, NULL, 0) != child)
			exit(1);
	}
}

/* Leaves so many detached processes behind. SIGCHLD is ignored, so that
 * waiting for a child lasts until it is gone. */
static void crowd(long count)
{
	while (count-- > 0) {
		pid_t middle = fork();

		if (middle < 0)
			exit(1);
		if (middle == 0) {
			setsid();
			if (fork() == 0)
				for (;;)
					pause();
			_exit(0);
		}
		waitpid(middle, NULL, 0);
	}
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	long count = argc > 2 ? atol(argv[2]) : 0;
	long long begin;

	if (!strcmp(what, "nothing"))
		return 0;
	if (!strcmp(what, "crowd")) {
		/* This process takes in the orphans, and is no member itself. */
		prctl(PR_SET_CHILD_SUBREAPER, 1);
		signal(SIGCHLD, SIG_IGN);
		if (fork() == 0) {
			gate();
			crowd(count);
			puts("there");
			fflush(stdout);
			_exit(0);
		}
		for (;;)
			pause();
	}
	gate();
	begin = now();
	if (!strcmp(what, "spawn"))
		spawn(count, argv[0]);
	else if (!strcmp(what, "forks"))
		forks(count);
	else
		return 2;
	printf("%lld\n", now() - begin);
	fflush(stdout);
	/* Until whoever measures has seen enough. */
	if (argc > 3)
		pause();
	return 0;
}
