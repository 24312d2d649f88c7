# The service of `hf-spanner serve` for a folder that is mounted at /model:
#   docker build --tag hf_spanner .
#   docker run --rm --read-only --tmpfs /tmp --volume "$PWD/my_model:/model:ro" --publish 8000:8000 hf_spanner
# On Linux the torch of the usual index is built for GPUs, several gigabytes; name an index that has the smaller one for
# CPUs by --build-arg PIP_EXTRA_INDEX_URL=... Other settings: the command of `docker run` replaces CMD.
FROM python:3.11-slim
ARG PIP_EXTRA_INDEX_URL=""
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY hf_spanner hf_spanner
RUN pip install --no-cache-dir -c constraints.txt ".[serve,onnx]" && rm -rf /source
RUN useradd --uid 1000 --create-home --shell /usr/sbin/nologin ner
ENV HF_HOME=/tmp/huggingface HF_HUB_OFFLINE=1 PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
WORKDIR /home/ner
EXPOSE 8000
HEALTHCHECK --start-period=60s CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/ready')"]
USER 1000
CMD ["hf-spanner", "serve", "/model", "--host", "0.0.0.0", "--port", "8000"]
