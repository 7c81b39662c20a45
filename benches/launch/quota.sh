#!/bin/sh
# Run a program in the control group of this host: quota.sh FOLDER PROGRAM...
# FOLDER has a group for each host, in which the program may use a part of a core.
folder=$1
shift
echo $$ >"$folder/$(hostname)/cgroup.procs"
exec "$@"
