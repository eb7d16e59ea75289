# The runtime for nodes with NVIDIA GPUs: as runtime.Dockerfile, and with the engine for GPUs, the
# LibTorch that it computes with, and NCCL. The driver's own libraries are never in an image: the
# container toolkit of the node puts them in.
#
#   docker build -f docker/runtime-cuda.Dockerfile -t localhost/lockstep-runtime-cuda:0.1.0 .
#
# No test builds it, as PyTorch's wheels are 3 GB to download; tests/images checks this file and the
# scripts that it runs.
ARG BASE_IMAGE=debian:bookworm-slim

# The same lines in all images of this folder, so that they are run once.
FROM ${BASE_IMAGE} AS tools
ENV LOCKSTEP_CACHE_DIR=/opt/lockstep
COPY scripts/install.sh /src/scripts/install.sh
RUN /src/scripts/install.sh build \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*

# nvcc, and the half of PyTorch's wheel that the engine is compiled with, as for the tests; and what
# NCCL loads where the node has InfiniBand or RoCE, without which it takes TCP and says nothing.
FROM tools AS compilers
RUN /src/scripts/install.sh cuda torch \
 && apt-get update && apt-get install -y --no-install-recommends ibverbs-providers \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*

# The same release with all that it loads on a GPU, NCCL among it: LibTorch brings its own, and one
# process has one.
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
# 5 GB that change with the release of PyTorch alone: a layer of its own, below the rest.
COPY --from=torch /opt/lockstep-engine-cuda /usr/lib/lockstep/lockstep-engine-cuda
COPY --from=build /rootfs /
# Where relative paths of data sets start: those of the examples lead to the digits.
ENV PATH=/usr/bin \
    LOCKSTEP_DATA_DIR=/usr/share/lockstep \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 65532:65532
ENTRYPOINT ["/usr/bin/lockstep-runtime"]
