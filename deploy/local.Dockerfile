# The image of Dockerfile around what this machine has compiled, on top of its stage "node". A file of its own, as a builder
# without BuildKit builds all stages of a file, also those that need a registry or what is not there.
ARG NODE=aquifer-node
FROM ${NODE}
COPY bin/image/root /
COPY --chown=65532:65532 bin/image/data /data
VOLUME /data
