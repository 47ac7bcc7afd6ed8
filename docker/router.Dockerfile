# SGLang's router, a package beside SGLang, on the image of the endpoint. Never built where it was written.
ARG BASE=sglang-dspine:0.5.23
# hadolint ignore=DL3006
FROM ${BASE}
USER 0
RUN PIP_BREAK_SYSTEM_PACKAGES=1 python3 -m pip install --no-cache-dir "sglang-router==0.3.2"
USER 10001
HEALTHCHECK NONE
ENTRYPOINT ["python3", "-m", "sglang_router.launch_router"]
CMD ["--help"]
