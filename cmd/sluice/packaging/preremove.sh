#!/bin/sh
# Before removing: dpkg says "remove", rpm says how many versions stay.
set -e
case "$1" in
remove | 0) ;;
*) exit 0 ;;
esac
[ -d /run/systemd/system ] || exit 0
systemctl disable --now sluice-proxy.service sluice-serve.service
