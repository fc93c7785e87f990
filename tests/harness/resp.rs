//! What an operator types at a Redis or a Sentinel, and its answer as text.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// A Redis that does not answer an operator in this time is stopped.
const PATIENCE: Duration = Duration::from_secs(5);

/// The answer is a line, the text that the line announces, or the words of a list with blanks between.
pub async fn ask(address: SocketAddr, line: &str) -> io::Result<String> {
    let exchange = async {
        let mut stream = BufReader::new(TcpStream::connect(address).await?);
        stream.write_all(format!("{line}\r\n").as_bytes()).await?;
        read(&mut stream).await
    };
    match tokio::time::timeout(PATIENCE, exchange).await {
        Ok(answer) => answer,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut words = Vec::new();
    // A list counts as its parts, which may be lists.
    let mut expected = 1;
    while expected > 0 {
        expected -= 1;
        let mut head = String::new();
        stream.read_line(&mut head).await?;
        let head = head.trim_end();
        let Some((kind, rest)) = head.split_at_checked(1) else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        match kind {
            "-" => return Err(io::Error::other(rest.to_owned())),
            "*" => expected += rest.parse().unwrap_or(0),
            "$" => {
                // With the end of the line; of nothing, not even that.
                let size = rest.parse().map_or(0, |size: usize| size + 2);
                let mut text = vec![0; size];
                stream.read_exact(&mut text).await?;
                let text = String::from_utf8_lossy(&text);
                words.push(text.strip_suffix("\r\n").unwrap_or(&text).to_owned());
            }
            _ => words.push(rest.to_owned()),
        }
    }
    Ok(words.join(" "))
}
