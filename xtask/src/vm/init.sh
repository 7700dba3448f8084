#!/bin/sh
# The first process of the guest: runs the tests, says how they ended, and
# switches the machine off.
export PATH=/usr/bin:/usr/sbin HOME=/root TRACKER_REQUIRE_EBPF=1
mount -t devtmpfs dev /dev
exec </dev/console >/dev/console 2>&1
ln -s /proc/self/fd /dev/fd
mkdir -p /dev/shm /dev/pts /var/tmp
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devpts devpts /dev/pts
mount -t tmpfs -o mode=1777 tmp /tmp
mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t tmpfs run /run
mount -t bpf bpf /sys/fs/bpf
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t cgroup -o freezer freezer /mnt/freezer
# Without them a mount in a namespace of its own would show in all others.
mount --make-rprivate /

failed=0
while read -r name program arguments; do
  echo "TRACKER-VM begin $name"
  if [ "$name" = locked_down ]; then
    mount -t securityfs security /sys/kernel/security
    echo confidentiality >/sys/kernel/security/lockdown
  fi
  # Once more what failed, as .ci/run does: these tests race with processes.
  for try in first second; do
    # By a shell in between, and not in the root directory: tests look at their
    # ancestors, and the first process is nobody's example.
    # shellcheck disable=SC2086  # The words of the list are arguments.
    (
      cd /t || exit
      sh -c '"$@"; exit $?' sh "$program" $arguments </dev/null
    )
    status=$?
    [ "$status" != 0 ] || break
    echo "$name failed at the $try try"
  done
  echo "TRACKER-VM end $name $status"
  [ "$status" = 0 ] || failed=$((failed + 1))
done </t/suites
echo "TRACKER-VM done $failed"
# Nobody reads the console once the machine is off.
sleep 1
echo o >/proc/sysrq-trigger
sleep 600
