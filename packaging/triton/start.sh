#!/usr/bin/env bash
# start.sh REPOSITORY [PORT]: serve a model repository with the tritonserver of nvidia-pytriton's wheel, on this machine
# only: HTTP on PORT (18000), gRPC on the next, metrics on the one after. Ends with Ctrl+C or SIGTERM.
# ENVIRONMENT is a folder with a virtual environment made as README.md says.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
repository=$(cd "$1" && pwd)
port=${2:-18000}
environment=${ENVIRONMENT:?say where the virtual environment is, see $here/README.md}
packages=$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
version=$("$environment/bin/python" -c 'import sys; print(f"{sys.version_info[0]}.{sys.version_info[1]}")')
server=$environment/tritonserver

if [ ! -d "$server" ]; then # the wheel's copy, with the backends that it lacks
    cp -r "$packages/pytriton/tritonserver" "$server.new"
    cp "$server.new/python_backend_stubs/$version/triton_python_backend_stub" "$server.new/backends/python/"
    mv "$server.new" "$server"
fi
for name in onnxruntime openvino; do
    mkdir -p "$server/backends/$name"
    cp "$here/${name}_backend.py" "$server/backends/$name/model.py"
done

export LD_LIBRARY_PATH=$packages/nvidia_pytriton.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export PATH=$environment/bin:$PATH ORT_DISABLE_TELEMETRY=1
exec "$server/bin/tritonserver" --model-repository="$repository" --backend-directory="$server/backends" \
    --cache-directory="$server/caches" --exit-on-error=true --log-verbose=0 \
    --http-address=127.0.0.1 --http-port="$port" --grpc-address=127.0.0.1 --grpc-port=$((port + 1)) \
    --metrics-address=127.0.0.1 --metrics-port=$((port + 2))
