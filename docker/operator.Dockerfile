# The operator.
#
#   docker build -f docker/operator.Dockerfile -t localhost/lockstep-operator:0.1.0 .
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
    docker/compile.sh "${PRESET}" lockstep_operator \
 && docker/rootfs.sh /rootfs \
      --notice nlohmann-json3-dev --notice libcli11-dev \
      --notice libspdlog-dev --notice libfmt-dev --notice libboost1.74-dev \
      --notice libyaml-cpp-dev \
      --notice "simdjson=$(scripts/install.sh --path simdjson)/copyright" \
      --notice "prometheus-cpp=$(scripts/install.sh --path prometheus-cpp)/copyright" \
      "build/${PRESET}/bin/lockstep-operator=/usr/bin/lockstep-operator" \
      "build/${PRESET}/bin/liblockstep-transport-cpprest.so=/usr/lib/lockstep/liblockstep-transport-cpprest.so" \
      /etc/ssl/certs/ca-certificates.crt=/etc/ssl/certs/ca-certificates.crt \
 && rm -rf build

FROM scratch
COPY --from=build /rootfs /
ENV PATH=/usr/bin
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/usr/bin/lockstep-operator"]
