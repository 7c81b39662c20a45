//! Trees: the hosts that each host sends to, in order.

use crate::error::TreeError;

/// An ordered tree over hosts 0 to N - 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    root: usize,
    children: Vec<Vec<usize>>,
}

impl Tree {
    /// A tree from each host's children in the order it sends to them.
    ///
    /// # Errors
    ///
    /// If a host is not reached from the root, or more than once.
    pub fn new(root: usize, children: Vec<Vec<usize>>) -> Result<Self, TreeError> {
        let hosts = children.len();
        let no_tree = |why: String| TreeError::NoTree { hosts, why };
        if root >= hosts {
            return Err(TreeError::Root { root, hosts });
        }
        let mut seen = vec![false; hosts];
        let mut stack = vec![root];
        let mut reached = 0;
        while let Some(host) = stack.pop() {
            if host >= hosts {
                return Err(no_tree(format!("there is no host {host}")));
            }
            if std::mem::replace(&mut seen[host], true) {
                return Err(no_tree(format!("host {host} is reached twice")));
            }
            reached += 1;
            stack.extend(&children[host]);
        }
        if reached < hosts {
            let left = seen.iter().position(|&reached| !reached).unwrap_or_default();
            return Err(no_tree(format!(
                "host {left} is not reached from the root, host {root}"
            )));
        }
        Ok(Self { root, children })
    }

    /// Builds a tree from each host's parent and an order of hosts.
    ///
    /// The root's parent is ignored. Siblings have the order in which their parent sends to them.
    ///
    /// # Errors
    ///
    /// If they do not form a tree.
    pub fn from_parents(root: usize, parent: &[usize], order: &[usize]) -> Result<Self, TreeError> {
        let hosts = parent.len();
        let mut children = vec![Vec::new(); hosts];
        if order.len() != hosts {
            let why = format!("the order names {} hosts", order.len());
            return Err(TreeError::NoTree { hosts, why });
        }
        for &host in order {
            let Some(&above) = parent.get(host) else {
                let why = format!("there is no host {host}");
                return Err(TreeError::NoTree { hosts, why });
            };
            if host == root {
                continue;
            }
            if above >= hosts {
                let why = format!("the parent of host {host} is {above}");
                return Err(TreeError::NoTree { hosts, why });
            }
            children[above].push(host);
        }
        Self::new(root, children)
    }

    /// The tree in which the root sends to each other host directly.
    ///
    /// # Errors
    ///
    /// If the root does not exist.
    pub fn flat(hosts: usize, root: usize) -> Result<Self, TreeError> {
        let mut children = vec![Vec::new(); hosts];
        if let Some(below) = children.get_mut(root) {
            *below = (0..hosts).filter(|&host| host != root).collect();
        }
        Self::new(root, children)
    }

    /// The host that has the data first.
    pub fn root(&self) -> usize {
        self.root
    }

    /// The number of hosts.
    pub fn hosts(&self) -> usize {
        self.children.len()
    }

    /// The hosts that `host` sends to, in this order.
    pub fn children(&self, host: usize) -> &[usize] {
        &self.children[host]
    }

    /// Each host's parent; the root's is itself.
    pub fn parents(&self) -> Vec<usize> {
        let mut parent = vec![self.root; self.hosts()];
        for (host, below) in self.children.iter().enumerate() {
            for &child in below {
                parent[child] = host;
            }
        }
        parent
    }

    /// All hosts, each after its parent and after the siblings before it: the root, its children, theirs.
    pub fn order(&self) -> Vec<usize> {
        let mut order = vec![self.root];
        let mut at = 0;
        while at < order.len() {
            order.extend(&self.children[order[at]]);
            at += 1;
        }
        order
    }

    /// Number of hosts below and including each.
    pub fn sizes(&self) -> Vec<usize> {
        let mut size = vec![1; self.hosts()];
        for &host in self.order().iter().rev() {
            size[host] += self.children[host].iter().map(|&child| size[child]).sum::<usize>();
        }
        size
    }
}
