//! `/login` and `/logout`: exchanges a key for a cookie. It must not know the key's permissions
//! beyond viewing.

use super::failure::Failure;
use super::form::{Form, is_our_page};
use super::page::Shell;
use super::visit::Visit;
use crate::access::{Cookie, SESSION_SECONDS};
use crate::app::App;
use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};
use http::header::SET_COOKIE;
use http::{HeaderValue, StatusCode, Uri};
use windlass_core::Error;

#[derive(Template)]
#[template(path = "login.html")]
struct Content<'a> {
    /// The page to continue at.
    back: &'a str,
    /// Why the last attempt failed.
    problem: Option<&'a str>,
    hours: u64,
}

/// `GET /login`
pub(super) async fn show(State(app): State<App>, visit: Visit) -> Result<Response, Failure> {
    let back = visit.param("back").filter(|back| is_our_page(back)).unwrap_or("/");
    if app.access.is_open().await? {
        return Ok(Redirect::to(back).into_response());
    }
    Ok(page(StatusCode::OK, back, None))
}

/// The login page for an unauthenticated request to another page.
pub(super) fn unknown(requested: &Uri) -> Response {
    let back = requested.path_and_query().map_or("/", |it| it.as_str());
    page(StatusCode::UNAUTHORIZED, back, None)
}

/// `POST /login`
pub(super) async fn sign_in(State(app): State<App>, form: Form) -> Result<Response, Failure> {
    let back = form.back().unwrap_or("/");
    if app.access.is_open().await? {
        return Ok(Redirect::to(back).into_response());
    }
    let key = form.all("key").next().unwrap_or_default().trim();
    let (who, now) = match app.access.by_token(key).await {
        Ok(known) => known,
        Err(Error::Unauthenticated { .. }) => {
            let problem = "This key is unknown, revoked or expired.";
            return Ok(page(StatusCode::UNAUTHORIZED, back, Some(problem)));
        }
        Err(error) => return Err(error.into()),
    };
    let cookie = Cookie::sign_in(&who, now, app.options.is_tls()).filter(|_| who.may().may_view());
    let Some(cookie) = cookie else {
        let problem = "This key lacks a permission: it needs view or admin.";
        return Ok(page(StatusCode::FORBIDDEN, back, Some(problem)));
    };
    Ok(with_cookie(Redirect::to(back), &cookie))
}

/// `POST /logout`
pub(super) async fn sign_out(State(app): State<App>) -> Response {
    with_cookie(Redirect::to("/login"), &Cookie::sign_out(app.options.is_tls()))
}

fn with_cookie(to: Redirect, cookie: &str) -> Response {
    let mut response = to.into_response();
    if let Ok(cookie) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

fn page(status: StatusCode, back: &str, problem: Option<&str>) -> Response {
    let content = Content { back, problem, hours: SESSION_SECONDS / 3_600 };
    let mut response = Shell::bare("Sign in").respond(&content);
    *response.status_mut() = status;
    response
}
