# The runtime with the built-in trainer on the CPU, and the digits of examples/mnist.yaml.
#
#   docker build -f docker/runtime.Dockerfile -t localhost/lockstep-runtime:0.1.0 .
#
# `lockstep-runtime install DIR` in this image copies the runtime into a pod with your own image.
ARG BASE_IMAGE=debian:bookworm-slim

# All Dockerfiles of this folder share these lines, so that the build runs them once.
FROM ${BASE_IMAGE} AS tools
ENV LOCKSTEP_CACHE_DIR=/opt/lockstep
COPY scripts/install.sh /src/scripts/install.sh
RUN /src/scripts/install.sh build \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*

FROM tools AS build
ARG PRESET=release
ARG CCACHE_DIR=/var/cache/ccache
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/var/cache/ccache \
    docker/compile.sh "${PRESET}" lockstep-runtime lockstep_engine \
 && docker/rootfs.sh /rootfs \
      --notice libssl-dev --notice zlib1g-dev --notice nlohmann-json3-dev --notice libcli11-dev \
      --notice libspdlog-dev --notice libfmt-dev --notice libboost1.74-dev \
      --notice "prometheus-cpp=$(scripts/install.sh --path prometheus-cpp)/copyright" \
      "build/${PRESET}/bin/lockstep-runtime=/usr/bin/lockstep-runtime" \
      "build/${PRESET}/bin/liblockstep-engine.so=/usr/lib/lockstep/liblockstep-engine.so" \
      "build/${PRESET}/bin/lockstep-engine-placeholders=/usr/lib/lockstep/lockstep-engine-placeholders" \
      examples/data=/usr/share/lockstep/data \
 && rm -rf build

FROM scratch
COPY --from=build /rootfs /
# Relative paths of data sets start here; the paths of the examples lead to the digits.
ENV PATH=/usr/bin \
    LOCKSTEP_DATA_DIR=/usr/share/lockstep
USER 65532:65532
ENTRYPOINT ["/usr/bin/lockstep-runtime"]
