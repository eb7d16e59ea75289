# The runtime for nodes with NVIDIA GPUs: as runtime.Dockerfile, and with NCCL. The driver's own
# libraries are never in an image: the container toolkit of the node puts them in.
#
#   docker build -f docker/runtime-cuda.Dockerfile -t localhost/lockstep-runtime-cuda:0.1.0 .
#
# No test builds it, as NCCL is 250 MB to download; tests/images checks this file.
ARG BASE_IMAGE=debian:bookworm-slim

# The same lines in all images of this folder, so that they are run once.
FROM ${BASE_IMAGE} AS tools
ENV LOCKSTEP_CACHE_DIR=/opt/lockstep
COPY scripts/install.sh /src/scripts/install.sh
RUN /src/scripts/install.sh build \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*

# NCCL, as NVIDIA publishes it for Python. The version is that of scripts/install.sh, as for the
# tests. The toolkit is not here: what is compiled with it, the engine for GPUs, is not in the image.
FROM tools AS nccl
RUN /src/scripts/install.sh nccl \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* \
 && ln -s "$(/src/scripts/install.sh --path nccl)" /opt/nccl-wheels \
 && ln -s /opt/nccl-wheels/nvidia/nccl/lib/libnccl.so.2 /opt/libnccl.so.2 \
 && ln -s /opt/nccl-wheels/nvidia_nccl_cu13-*.dist-info/licenses /opt/nccl-licences

FROM nccl AS build
ARG PRESET=release
ARG CCACHE_DIR=/var/cache/ccache
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
      /opt/libnccl.so.2=/usr/lib/libnccl.so.2 \
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
