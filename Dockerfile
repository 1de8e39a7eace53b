# An image of any node, for the compose.yaml of its kit. From a checkout:
#     docker build -t consilium:$(python3 -c 'import tomllib; print(tomllib.load(open("pyproject.toml", "rb"))["project"]["version"])') .
ARG BASE=python:3.11-slim
FROM ${BASE}
# torch without the gigabytes that only a GPU needs
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY . /src
RUN python3 -m venv /opt/consilium \
 && /opt/consilium/bin/pip install --no-cache-dir -c /src/constraints.txt --extra-index-url "${TORCH_INDEX}" torch \
 && /opt/consilium/bin/pip install --no-cache-dir -c /src/constraints.txt /src \
 && rm -rf /src
ENV PATH=/opt/consilium/bin:$PATH HOME=/tmp
ENTRYPOINT ["consilium"]
