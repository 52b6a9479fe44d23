# Stator on a GPU host. The steps are those of ./run, which also works without Docker.
#   docker build --target dev -t stator-dev .      a built tree, with compilers and tests
#   docker build -t stator .                       the programs alone
#   docker run --gpus all --shm-size 1g stator train
# Versions are pinned by the base image's tag (CUDA, cuDNN, NCCL), by the snapshot of Ubuntu's archive
# (everything from apt; it must be younger than the image) and by cmake/cudnn_frontend.version.
ARG CUDA_TAG=13.0.3
ARG UBUNTU_SNAPSHOT=20261101T000000Z

# dev: compilers, sources, build
FROM nvidia/cuda:${CUDA_TAG}-cudnn-devel-ubuntu24.04 AS dev
ARG UBUNTU_SNAPSHOT
# CUDA comes with the image; its repository has no snapshots, so it is not asked again.
RUN rm -f /etc/apt/sources.list.d/cuda*.list \
 && echo "APT::Snapshot \"${UBUNTU_SNAPSHOT}\";" > /etc/apt/apt.conf.d/90snapshot \
 && useradd --create-home --shell /bin/bash stator \
 && mkdir /home/stator/stator /opt/stator && chown stator:stator /home/stator/stator /opt/stator
WORKDIR /home/stator/stator
# Only what installing needs, so that a change of the sources does not install again.
COPY --chown=stator:stator run ./
COPY --chown=stator:stator cmake/cudnn_frontend.version cmake/fetch_cudnn_frontend.sh cmake/
RUN ./run setup && chown -R stator:stator .cache && rm -rf /var/lib/apt/lists/*
USER stator
COPY --chown=stator:stator . .
RUN ./run install /opt/stator
ENTRYPOINT ["./run"]
CMD ["test"]

# runtime: the installed programs
FROM nvidia/cuda:${CUDA_TAG}-cudnn-runtime-ubuntu24.04 AS runtime
ARG UBUNTU_SNAPSHOT
# g++ compiles the kernels of plans for the CPU; fortunes is the text that `train` reads by default.
RUN rm -f /etc/apt/sources.list.d/cuda*.list \
 && echo "APT::Snapshot \"${UBUNTU_SNAPSHOT}\";" > /etc/apt/apt.conf.d/90snapshot \
 && apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
      g++ libdnnl3 libfmt9 libspdlog1.12 libgomp1 ocl-icd-libopencl1 fortunes \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home --shell /bin/bash stator
COPY --from=dev /opt/stator /opt/stator
ENV PATH=/opt/stator/bin:${PATH}
USER stator
WORKDIR /home/stator
ENTRYPOINT ["stator"]
CMD ["--help"]
