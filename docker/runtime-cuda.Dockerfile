# The runtime for nodes with NVIDIA GPUs: runtime.Dockerfile plus the engine for GPUs, its LibTorch,
# and NCCL. The image does not contain the driver's libraries: the node's container toolkit adds
# them.
#
#   docker build -f docker/runtime-cuda.Dockerfile -t localhost/lockstep-runtime-cuda:0.1.0 .
#
# No test builds this image, because PyTorch's wheels are a download of 3 GB. tests/images checks this
# file and the scripts that it runs.
ARG BASE_IMAGE=debian:bookworm-slim

# All Dockerfiles of this folder share these lines, so that the build runs them once.
FROM ${BASE_IMAGE} AS tools
ENV LOCKSTEP_CACHE_DIR=/opt/lockstep
COPY scripts/install.sh /src/scripts/install.sh
RUN /src/scripts/install.sh build \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*

# nvcc, and the part of PyTorch's wheel that the engine is compiled with, as for the tests. Also the
# libraries that NCCL loads for InfiniBand or RoCE; without them it silently uses TCP.
FROM tools AS compilers
RUN /src/scripts/install.sh cuda torch \
 && apt-get update && apt-get install -y --no-install-recommends ibverbs-providers \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*

# The same release with all libraries that it loads on a GPU, including NCCL: LibTorch brings its own
# NCCL, and a process must have only one.
FROM compilers AS torch
COPY docker/torch_libraries.sh /src/docker/torch_libraries.sh
RUN folder=$(/src/scripts/install.sh --path "torch") && version=${folder##*torch-} \
 && python3 -m venv /opt/venv \
 && /opt/venv/bin/pip install --no-cache-dir --target /opt/wheels torch==${version} \
 && /src/docker/torch_libraries.sh /opt/wheels /opt/lockstep-engine-cuda \
 && rm -rf /var/lib/apt/lists/* /opt/venv /opt/wheels

FROM torch AS build
ARG PRESET=release
ARG CCACHE_DIR=/var/cache/ccache
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/var/cache/ccache \
    docker/compile.sh "${PRESET}" lockstep-runtime lockstep_engine lockstep_engine_cuda \
 && docker/rootfs.sh /rootfs \
      --notice libssl-dev --notice zlib1g-dev --notice nlohmann-json3-dev --notice libcli11-dev \
      --notice libspdlog-dev --notice libfmt-dev --notice libboost1.74-dev \
      --notice "prometheus-cpp=$(scripts/install.sh --path prometheus-cpp)/copyright" \
      --beside /opt/lockstep-engine-cuda=/usr/lib/lockstep/lockstep-engine-cuda \
      "build/${PRESET}/bin/lockstep-runtime=/usr/bin/lockstep-runtime" \
      "build/${PRESET}/bin/liblockstep-engine.so=/usr/lib/lockstep/liblockstep-engine.so" \
      "build/${PRESET}/bin/liblockstep-engine-cuda.so=/usr/lib/lockstep/liblockstep-engine-cuda.so" \
      "build/${PRESET}/bin/lockstep-engine-placeholders=/usr/lib/lockstep/lockstep-engine-placeholders" \
      /usr/lib/x86_64-linux-gnu/libibverbs=/usr/lib/x86_64-linux-gnu/libibverbs \
      /etc/libibverbs.d=/etc/libibverbs.d \
      examples/data=/usr/share/lockstep/data \
 && ln -s lockstep/lockstep-engine-cuda/libnccl.so.2 /rootfs/usr/lib/libnccl.so.2 \
 && rm -rf build

FROM scratch
# 5 GB that change only with the release of PyTorch, so they have their own layer below the rest.
COPY --from=torch /opt/lockstep-engine-cuda /usr/lib/lockstep/lockstep-engine-cuda
COPY --from=build /rootfs /
# Relative paths of data sets start here; the paths of the examples lead to the digits.
ENV PATH=/usr/bin \
    LOCKSTEP_DATA_DIR=/usr/share/lockstep \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 65532:65532
ENTRYPOINT ["/usr/bin/lockstep-runtime"]
