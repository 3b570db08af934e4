#!/bin/sh
# Installs the peers that the benchmark runs, each from its own package, and prints what was found. What cannot be had is
# said and left out; the benchmark runs with the rest. Run as a user who may install Debian packages.
set -u
cd "$(dirname "$0")" || exit 1

debian="g++ libhnswlib-dev libfaiss-dev libopenblas-dev libsqlite3-dev python3-numpy"
missing=""
for p in $debian; do
	dpkg-query -W "$p" >/dev/null 2>&1 || missing="$missing $p"
done
if [ -n "$missing" ]; then
	apt-get update >/dev/null
	# One by one: a package that cannot be had must not keep the others away.
	for p in $missing; do
		DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$p" >/dev/null || echo "not installed: $p"
	done
fi
# No lock file: it would record download addresses. package.json names exact versions.
npm install --no-package-lock --no-audit --no-fund --loglevel=error || echo "npm packages not installed"
# Python packages in an environment of their own. hnswlib is compiled here, for this processor.
pypi="numpy==2.4.6 hnswlib==0.8.0 rabitqlib==0.7.1 faiss-cpu==1.15.1 pyglass-portable==2.1.0"
[ -x venv/bin/python ] || python3 -m venv venv || echo "no Python environment"
for p in $pypi; do
	venv/bin/python -m pip install --quiet --disable-pip-version-check "$p" || echo "not installed: $p"
done

echo "Debian packages:"
for p in $debian; do
	dpkg-query -W -f='  ${Package} ${Version}\n' "$p" 2>/dev/null || echo "  $p: missing"
done
echo "npm packages, on node $(node --version 2>/dev/null || echo missing):"
for p in @lancedb/lancedb apache-arrow sqlite-vec-linux-x64 usearch @zvec/zvec; do
	v=$(node -p "JSON.parse(require('fs').readFileSync('node_modules/$p/package.json')).version" 2>/dev/null) || v=missing
	echo "  $p $v"
done
echo "PyPI packages, on $(venv/bin/python --version 2>/dev/null || echo 'no Python'):"
for p in $pypi; do
	v=$(venv/bin/python -c "import importlib.metadata as m; print(m.version('${p%%=*}'))" 2>/dev/null) || v=missing
	echo "  ${p%%=*} $v"
done
echo "Go modules:"
(cd .. && go list -m -f '  {{.Path}} {{.Version}}' github.com/philippgille/chromem-go)
