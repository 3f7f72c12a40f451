"""TLS before a server of a test: an authority and a certificate of its own, and a thread that passes bytes on."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

ADDRESS = "127.0.0.2"
"""On this machine, and none of the names that mean it: a client treats the server as one on another machine."""
CHUNK_BYTES = 65536
ROUNDS = 10


@dataclass(frozen=True)
class TlsFront:
    """Where the server is reached with TLS, and the authority that a client has to trust."""

    address: str
    port: int
    ca_file: Path


@contextmanager
def tls_front(target_port: int, folder: Path) -> Iterator[TlsFront]:
    """Pass what comes in with TLS on to a port of 127.0.0.1 while the block runs.

    Args:
        target_port: of the server.
        folder: for keys and certificates; made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ca_file, context = _certificates(folder)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True, name="mst-tls")
    thread.start()

    async def passing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", target_port)
            try:
                await asyncio.gather(_pump(reader, inner_writer), _pump(inner_reader, writer))
            finally:
                # at once: nobody is left to wait for a polite end
                inner_writer.transport.abort()
                writer.transport.abort()

    async def begin() -> asyncio.Server:
        return await asyncio.start_server(passing, ADDRESS, 0, ssl=context)

    server = asyncio.run_coroutine_threadsafe(begin(), loop).result(10)
    try:
        yield TlsFront(ADDRESS, server.sockets[0].getsockname()[1], ca_file)
    finally:
        asyncio.run_coroutine_threadsafe(_end(server), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, ssl.SSLError):
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
    with suppress(OSError, ssl.SSLError):
        writer.close()
        await writer.wait_closed()


async def _end(server: asyncio.Server) -> None:
    server.close()
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await server.wait_closed()
    # aborted connections are closed in the loop's next rounds
    for _ in range(ROUNDS):
        await asyncio.sleep(0)


def _certificates(folder: Path) -> tuple[Path, ssl.SSLContext]:
    authority, authority_key = _certificate("mst test authority", None, None)
    server, server_key = _certificate("mst test server", authority, authority_key)
    ca_file, chain, key = folder / "ca.pem", folder / "server.pem", folder / "server.key"
    ca_file.write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    chain.write_bytes(server.public_bytes(serialization.Encoding.PEM))
    key.write_bytes(
        server_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(chain, key)
    return ca_file, context


def _certificate(
    name: str, issuer: x509.Certificate | None, issuer_key: ec.EllipticCurvePrivateKey | None
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    signer = issuer_key or key
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer is not None else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    if issuer is not None:
        made = made.add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(ADDRESS))]), critical=False)
    return made.sign(signer, hashes.SHA256()), key
