//! The commands as a user runs them: one program, so that it is linked once.

mod attached;
mod copy;
mod damage;
mod generate;
mod install;
mod remote;
mod scripts;
mod serving;
mod shell;
mod shell_commands;
mod spill;
mod sql_command;
mod support;
mod web;
