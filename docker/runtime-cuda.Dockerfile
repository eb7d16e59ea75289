# The runtime for nodes with NVIDIA GPUs: as runtime.Dockerfile, compiled where the CUDA toolkit is,
# and with NCCL. The driver's own libraries are never in an image: the container toolkit of the node
# puts them in.
#
#   docker build -f docker/runtime-cuda.Dockerfile -t localhost/lockstep-runtime-cuda:0.1.0 .
#
# No test builds it, as toolkit and NCCL are 400 MB to download; tests/images checks this file.
ARG BASE_IMAGE=debian:bookworm-slim

# The same lines in all images of this folder, so that they are run once.
FROM ${BASE_IMAGE} AS tools
ENV LOCKSTEP_CACHE_DIR=/opt/lockstep
COPY scripts/install.sh /src/scripts/install.sh
RUN /src/scripts/install.sh build \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*

# The parts of the toolkit that compile, as NVIDIA publishes them for Python; and NCCL. 13.0 runs on
# every driver of CUDA 13. The links are those that CMake and nvcc look for and the wheels lack.
FROM tools AS cuda
RUN apt-get update \
 && apt-get install --yes --no-install-recommends python3-pip \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
RUN pip install --no-cache-dir --no-deps --target /opt/wheels \
      nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88 \
      nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85 nvidia-nvml-dev==13.0.87 \
      nvidia-nccl-cu13==2.30.7 \
 && ln -s /opt/wheels/nvidia/cu13 /opt/cuda \
 && ln -s libcudart.so.13 /opt/cuda/lib/libcudart.so \
 && ln -s lib /opt/cuda/lib64 \
 && ln -s /opt/wheels/nvidia/nccl /opt/nccl \
 && ln -s libnccl.so.2 /opt/nccl/lib/libnccl.so \
 && ln -s /opt/wheels/nvidia_nccl_cu13-*.dist-info/licenses /opt/nccl-licences

FROM cuda AS build
ARG PRESET=release
ARG CCACHE_DIR=/var/cache/ccache
ENV CUDACXX=/opt/cuda/bin/nvcc CUDAHOSTCXX=g++ CUDAToolkit_ROOT=/opt/cuda NCCL_ROOT=/opt/nccl
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/var/cache/ccache \
    docker/compile.sh "${PRESET}" lockstep-runtime lockstep_engine \
 && docker/rootfs.sh /rootfs \
      --notice libssl-dev --notice zlib1g-dev --notice nlohmann-json3-dev --notice libcli11-dev \
      --notice libspdlog-dev --notice libfmt-dev --notice libboost1.74-dev \
      "build/${PRESET}/bin/lockstep-runtime=/usr/bin/lockstep-runtime" \
      "build/${PRESET}/bin/liblockstep-engine.so=/usr/lib/lockstep/liblockstep-engine.so" \
      "build/${PRESET}/bin/lockstep-engine-placeholders=/usr/lib/lockstep/lockstep-engine-placeholders" \
      /opt/nccl/lib/libnccl.so.2=/usr/lib/libnccl.so.2 \
      /opt/nccl-licences=/usr/share/doc/libnccl2 \
      examples/data=/usr/share/lockstep/data \
 && rm -rf build

FROM scratch
COPY --from=build /rootfs /
# Where relative paths of data sets start: those of the examples lead to the digits.
ENV PATH=/usr/bin \
    LOCKSTEP_DATA_DIR=/usr/share/lockstep \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 65532:65532
ENTRYPOINT ["/usr/bin/lockstep-runtime"]
