//! Addresses with a zone: `fe80::1%eth0`, a link-local address and the interface by which this host reaches it.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use nix::net::if_::if_nametoindex;

/// Reads the address of one host, with the port of a service on it. A zone is the name of an interface of this host.
///
/// # Errors
/// A text that says what is wrong with the address.
pub(crate) fn parse(text: &str, port: u16) -> Result<SocketAddr, String> {
    let (bare, zone) = match text.split_once('%') {
        Some((bare, zone)) => (bare, Some(zone)),
        None => (text, None),
    };
    let ip = bare.parse::<IpAddr>().map(|ip| ip.to_canonical());
    let ip = ip.ok().filter(is_of_a_host).ok_or_else(|| not_a_host(text))?;
    let Some(zone) = zone else {
        return Ok(SocketAddr::new(ip, port));
    };
    match ip {
        IpAddr::V6(ip) if ip.is_unicast_link_local() => {
            let scope = if_nametoindex(zone)
                .map_err(|_| format!("this host has no interface `{zone}`, which `{text}` names"))?;
            Ok(SocketAddrV6::new(ip, port, 0, scope).into())
        }
        _ => Err(not_a_host(text)),
    }
}

/// The same without the interface, for an address to which this host does not connect.
pub(crate) fn parse_bare(text: &str, port: u16) -> Result<SocketAddr, String> {
    parse(text.split_once('%').map_or(text, |(bare, _)| bare), port).map_err(|_| not_a_host(text))
}

/// An address without its port as programs accept it; the zone is a number.
pub(crate) fn host(address: SocketAddr) -> String {
    match address {
        SocketAddr::V6(six) if six.scope_id() != 0 => format!("{}%{}", six.ip(), six.scope_id()),
        other => other.ip().to_canonical().to_string(),
    }
}

fn is_of_a_host(ip: &IpAddr) -> bool {
    let broadcast = matches!(ip, IpAddr::V4(v4) if v4.is_broadcast());
    !ip.is_unspecified() && !ip.is_multicast() && !broadcast
}

fn not_a_host(text: &str) -> String {
    format!("`{text}` is not the address of a host")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_an_interface_of_this_host() {
        let SocketAddr::V6(address) = parse("fe80::1%lo", 7411).unwrap() else {
            panic!("not IPv6");
        };
        assert_eq!(address.scope_id(), if_nametoindex("lo").unwrap());
        assert_eq!(host(address.into()), format!("fe80::1%{}", address.scope_id()));
        assert_eq!(
            parse("fe80::1%nowhere0", 7411).unwrap_err(),
            "this host has no interface `nowhere0`, which `fe80::1%nowhere0` names"
        );
        assert_eq!(
            parse_bare("fe80::1%nowhere0", 7411).unwrap(),
            "[fe80::1]:7411".parse().unwrap()
        );
    }

    #[test]
    fn other_addresses_have_no_zone() {
        assert_eq!(parse("::ffff:10.0.0.1", 1).unwrap(), "10.0.0.1:1".parse().unwrap());
        assert_eq!(host("[fd00::1]:1".parse().unwrap()), "fd00::1");
        for text in [
            "fd00::1%lo",
            "10.0.0.1%lo",
            "ff02::1%lo",
            "fe80::1%",
            "%lo",
            "0.0.0.0",
            "host.example",
            "",
        ] {
            assert!(parse(text, 1).is_err(), "{text}");
        }
    }
}
