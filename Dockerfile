# An image with the broker and the facade side by side. Its context is the folder that ci/release
# makes (a clone has no binaries); any base with the C library of the build machine will do.
#
#   broker alone:      docker run IMAGE
#   with its facade:   docker run -e QUEEN_KAFKA_EMBEDDED=true -e QUEEN_KAFKA_ADVERTISED_ADDR=HOST:9092 IMAGE
#   facade alone:      docker run -e QUEEN_URL=http://queen:6632 -e QUEEN_KAFKA_ADVERTISED_ADDR=HOST:9092 IMAGE ./bin/queen-kafka
ARG BASE=debian:12-slim
FROM ${BASE}
# Side by side: embedded mode finds the facade in the folder of the broker's own executable.
COPY bin/ /app/bin/
COPY LICENSE /app/
COPY --chown=65532:65532 data/ /data/
WORKDIR /app
USER 65532:65532
VOLUME /data
EXPOSE 6632 9092
CMD ["./bin/fake-queen", "serve", "--addr", "0.0.0.0:6632", "--dir", "/data"]
