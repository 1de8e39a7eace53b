# An image of any node, for examples/compose.yaml. From a checkout:
#     docker build -t consilium:$(python3 -c 'import tomllib; print(tomllib.load(open("pyproject.toml", "rb"))["project"]["version"])') .
# Where the folder wheelhouse is there (`make wheelhouse`, with the Python of the base), no index is asked.
ARG BASE=python:3.11-slim
FROM ${BASE} AS build
# torch without the gigabytes that only a GPU needs
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY . /src
RUN python3 -m venv /opt/consilium \
 && if [ -f /src/wheelhouse/requirements.txt ]; then \
        /opt/consilium/bin/pip install --no-cache-dir --no-index --find-links /src/wheelhouse --require-hashes -r /src/wheelhouse/requirements.txt; \
    else \
        /opt/consilium/bin/pip install --no-cache-dir -c /src/constraints.txt --extra-index-url "${TORCH_INDEX}" torch \
     && /opt/consilium/bin/pip install --no-cache-dir -c /src/constraints.txt /src; \
    fi

# neither sources nor wheels stay in a layer
FROM ${BASE}
COPY --from=build /opt/consilium /opt/consilium
ENV PATH=/opt/consilium/bin:$PATH HOME=/tmp
USER 1000:1000
ENTRYPOINT ["consilium"]
