# One image for all processes; compose.yaml says which command each one runs.
FROM python:3.12.14-slim-trixie@sha256:f77ac9e44ae96ef2c90b8053ea08c31f8be030f824196b0ae4db6d462c84e51f AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PYTHONDONTWRITEBYTECODE=1
RUN python -m venv /venv
ENV PATH=/venv/bin:$PATH
COPY requirements.lock .
RUN python -m pip install --require-hashes --requirement requirements.lock
WORKDIR /app
COPY . .
# Whoever cloned with a strict umask has files that the program's own user could not read.
RUN chmod --recursive a+rX .
RUN STORYENGINE_DATA=/build-data SECRET_KEY=for-the-build-only python manage.py collectstatic --no-input --verbosity 0

FROM python:3.12.14-slim-trixie@sha256:f77ac9e44ae96ef2c90b8053ea08c31f8be030f824196b0ae4db6d462c84e51f
# The embedded model's library is linked against OpenMP; backups need PostgreSQL's own programs, of the
# version that compose.yaml runs.
RUN apt-get update && apt-get install --yes --no-install-recommends libgomp1 postgresql-client-17 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --create-home storyengine \
    && install --directory --owner=storyengine --group=storyengine --mode=700 /data /backups
COPY --from=build /venv /venv
COPY --from=build /app /app
WORKDIR /app
USER storyengine
# Chapters, the secret key and, for the embedded model, its weights: all that has to be kept.
# Of the C library's heaps two are enough, see Procfile.
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 MALLOC_ARENA_MAX=2 \
    STORYENGINE_DATA=/data XDG_CACHE_HOME=/data/cache
VOLUME /data
EXPOSE 8000
CMD ["python", "manage.py", "serve"]
