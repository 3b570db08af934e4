#!/usr/bin/env bash
# A real PostgreSQL 17 with pgvector for tests, on loopback, from Debian's packages.
#
#   tools/engines/postgres.sh start [PORT]   starts an empty server and prints its URL
#   tools/engines/postgres.sh stop URL       stops it and removes its data
#   tools/engines/postgres.sh get            only fetches the packages; start does so when needed
#
# PostgreSQL comes from Debian trixie, whatever Debian this is, because older ones have no pgvector. The packages are unpacked,
# not installed, below ~/.cache/vecbolt-engines, and run there in a chroot; so it needs root. No file is synced: tests
# only. The default collation is English, so that whoever forgets that ids and strings are ordered by bytes is found out.
set -euo pipefail

major=17 suite=trixie
# postgresql-17 needs a shell (initdb) but does not depend on one.
packages="postgresql-$major postgresql-$major-pgvector dash"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/vecbolt-engines
bin=/usr/lib/postgresql/$major/bin
uid=5433

die() { echo "postgres.sh: $*" >&2; exit 1; }

[ "$(id -u)" = 0 ] || die "needs root for chroot; without it, start any PostgreSQL with pgvector >= 0.8 yourself and set VECBOLT_POSTGRES to its URL"
for tool in apt-get dpkg dpkg-deb chroot; do
  command -v "$tool" >/dev/null || die "needs $tool: it works on Debian and what derives from it"
done
arch=$(dpkg --print-architecture)
root=$cache/postgres-$major-$suite-$arch-1 # the last number counts recipes: raise it when get changes

inside() { env -i PATH=$bin:/usr/sbin:/usr/bin LC_ALL=C.UTF-8 chroot --userspec=$uid:$uid "$root" "$@"; }

get() {
  [ ! -f "$root/VERSIONS" ] || return 0
  mirror=${VECBOLT_DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' |
    grep -E '/debian/?$' | head -n 1 || true)}
  [ -n "$mirror" ] || die "apt knows no Debian mirror here: set VECBOLT_DEBIAN_MIRROR to the address of one"
  keys=/usr/share/keyrings/debian-archive-keyring.gpg
  [ -f $keys ] || die "$keys is missing: install debian-archive-keyring"

  mkdir -p "$cache"
  work=$(mktemp -d "$cache/postgres.XXXXXX") # unpacked there, renamed when whole: nobody sees half of it
  trap 'rm -rf "$work"' EXIT
  mkdir -p "$work"/apt/{lists,archives,etc}/partial "$work"/root/{dev,srv,tmp,etc,usr/{bin,sbin,lib,lib64}}
  echo "deb [signed-by=$keys] $mirror $suite main" >"$work/apt/sources.list"
  : >"$work/apt/status" # nothing counts as installed, so that apt fetches the C library too
  apt=(apt-get -q -y -o APT::Sandbox::User=root -o APT::Architecture="$arch" -o APT::Architectures="$arch"
    -o Dir::Etc::SourceList="$work/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::Etc::Parts="/etc/apt/apt.conf.d"
    -o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null
    -o Dir::State::Lists="$work/apt/lists" -o Dir::State::Status="$work/apt/status"
    -o Dir::Cache::Archives="$work/apt/archives" -o Acquire::Retries=3 -o APT::Update::Error-Mode=any -o Debug::NoLocking=1)
  echo "postgres.sh: fetching $packages and what they need from Debian $suite" >&2
  "${apt[@]}" update >"$work/log" 2>&1 || { cat "$work/log" >&2; die "apt-get update failed for $suite at $mirror"; }
  # shellcheck disable=SC2086
  "${apt[@]}" install --no-install-recommends --download-only $packages >"$work/log" 2>&1 ||
    { cat "$work/log" >&2; die "cannot fetch $packages"; }

  for dir in bin sbin lib lib64; do ln -s "usr/$dir" "$work/root/$dir"; done
  for deb in "$work"/apt/archives/*.deb; do dpkg-deb --fsys-tarfile "$deb" | tar -C "$work/root" --keep-directory-symlink -xf -; done
  chmod 1777 "$work/root/tmp"
  mknod -m 666 "$work/root/dev/null" c 1 3 || die "cannot make /dev/null below $work: mknod is not allowed here"
  echo "postgres:x:$uid:$uid::/srv:/bin/sh" >>"$work/root/etc/passwd"
  echo "postgres:x:$uid:" >>"$work/root/etc/group"
  for deb in "$work"/apt/archives/postgresql-$major*.deb; do dpkg-deb --show "$deb"; done >"$work/root/VERSIONS"
  chmod 755 "$work/root"
  # If another process was faster, its copy serves as well.
  mv -T "$work/root" "$root" 2>/dev/null || [ -f "$root/VERSIONS" ] || die "cannot write $root"
}

listening() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

start() {
  get
  port=${1:-15433}
  # mkdir is the lock between those who look for a port at the same time.
  until ! listening "$port" && mkdir "$root/srv/$port" 2>/dev/null; do
    [ $# = 0 ] && [ "$port" -lt 15533 ] || die "port $port is in use"
    port=$((port + 1))
  done
  data=/srv/$port
  chown $uid:$uid "$root$data"
  inside $bin/initdb -D $data -U postgres -A trust --no-sync -E UTF8 --locale=C.UTF-8 --locale-provider=icu --icu-locale=en-US \
    >"$root/srv/$port.log" 2>&1 || { cat "$root/srv/$port.log" >&2; rm -rf "${root:?}$data" "$root/srv/$port.log"; die "initdb failed"; }
  cat >>"$root$data/postgresql.conf" <<END
listen_addresses = '127.0.0.1'
port = $port
unix_socket_directories = ''
dynamic_shared_memory_type = mmap
max_connections = 50
fsync = off
synchronous_commit = off
full_page_writes = off
END
  chown $uid:$uid "$root/srv/$port.log"
  inside $bin/pg_ctl -D $data -l "/srv/$port.log" -w -t 60 start >/dev/null ||
    { cat "$root/srv/$port.log" >&2; stop "$port"; die "the server does not start"; }
  echo "postgres://postgres@127.0.0.1:$port/postgres?sslmode=disable"
}

stop() {
  port=${1#*127.0.0.1:}
  port=${port%%/*}
  [[ $port =~ ^[0-9]+$ ]] && [ -d "$root/srv/$port" ] || die "no server of this script has the port of $1"
  [ ! -f "$root/srv/$port/postmaster.pid" ] || inside $bin/pg_ctl -D "/srv/$port" -m immediate -w stop >/dev/null || true
  rm -rf "${root:?}/srv/$port" "$root/srv/$port.log"
}

case ${1:-} in
get) get && cat "$root/VERSIONS" ;;
start) start "${@:2}" ;;
stop) [ $# = 2 ] || die "stop which server? give its URL" && stop "$2" ;;
*) sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
